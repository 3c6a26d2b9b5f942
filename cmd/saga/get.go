package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/self"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/content"
)

func (p *program) promptsCommand() *cli.Command {
	return &cli.Command{
		Name:  "prompts",
		Usage: "list the prompts of a server",
		Description: `Lists the prompts that a server offers, with their arguments; those in brackets may be
left out.

Examples:
   saga prompts
   saga prompts --server https://tools.example.com/mcp --output json`,
		Flags: append([]cli.Flag{stringFlag("output", "text, or json with everything", "text")}, serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.list(c, func(connection *client.Client) (any, []listRow, error) {
				prompts, err := connection.Prompts(ctx)
				var rows []listRow
				for _, prompt := range prompts {
					rows = append(rows, listRow{name: prompt.Name, takes: promptArguments(prompt.Arguments), description: prompt.Description})
				}
				return prompts, rows, err
			}, "The server has no prompts.")
		},
	}
}

func promptArguments(arguments []client.PromptArgument) string {
	var names []string
	for _, a := range arguments {
		name := a.Name + "="
		if !a.Required {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (p *program) getCommand() *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "get a prompt and answer what it asks",
		ArgsUsage: "PROMPT [name=value ...]",
		Description: `Gets the messages of a server's prompt and prints them. What the server asks on the way is
answered as with saga call. The arguments of prompts are texts; name=@file takes that of a
file.

Examples:
   saga get write_text topic=tea
   saga get write_text topic=@topic.txt --output json

` + exitCodesHelp,
		Flags: append(askingFlags("get"), serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := p.oneSubject(c, "which prompt? %s prompts lists them", false); err != nil {
				return err
			}
			return p.converse(ctx, c, func(connection *client.Client, handlers client.Handlers) (ending, error) {
				given, err := texts(c.Args().Tail())
				if err != nil {
					return nil, err
				}
				return p.prompt(connection.GetPrompt(ctx, c.Args().First(), given, handlers))
			})
		},
	}
}

// prompt is the ending of getting a prompt.
func (p *program) prompt(result *client.PromptResult, err error) (ending, error) {
	return func(c *cli.Command, _ bool) error {
		if c.String("output") == "json" {
			return failed(p.printJSON(result.Raw))
		}
		var parts []string
		for _, message := range result.Messages {
			parts = append(parts, string(message.Role)+":\n"+term.Blocks(content.Blocks{message.Content}))
		}
		p.print(strings.Join(parts, "\n\n"))
		return nil
	}, err
}

// promptWords writes the arguments of a prompt as words of a command line.
func promptWords(arguments json.RawMessage) string {
	var given map[string]string
	if json.Unmarshal(arguments, &given) != nil {
		return ""
	}
	words := ""
	for _, name := range slices.Sorted(maps.Keys(given)) {
		words += " " + self.Quote(name+"="+given[name])
	}
	return words
}

// listRow is a line of a list: what a thing is called, what it takes, what it is.
type listRow struct{ name, takes, description, mark string }

// list prints what read returns, as JSON or as a table.
func (p *program) list(c *cli.Command, read func(*client.Client) (any, []listRow, error), none string) error {
	if err := noArguments(c); err != nil {
		return err
	}
	connection, err := p.connectNew(c)
	if err != nil {
		return err
	}
	defer connection.Close()
	all, rows, err := read(connection)
	if err != nil {
		return p.serverFailed(err)
	}
	if c.String("output") == "json" {
		raw, err := json.Marshal(all)
		if err != nil {
			return failed(err)
		}
		return failed(p.printJSON(raw))
	}
	if len(rows) == 0 {
		p.say("%s", none)
		return nil
	}
	table := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(table, "%s%s\t%s\t%s\n", row.mark, plain.Line(row.name), plain.Line(row.takes), plain.Line(row.description))
	}
	return failed(table.Flush())
}
