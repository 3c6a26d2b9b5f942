package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/self"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/content"
)

func (p *program) promptsCommand() *cli.Command {
	return p.listCommand("prompts", "everything", `Lists the prompts that a server offers, with their arguments; those in brackets may be
left out.

Examples:
   saga prompts
   saga prompts --server https://tools.example.com/mcp --output json`, func(ctx context.Context, connection *client.Client) (any, []listRow, error) {
		prompts, err := connection.Prompts(ctx)
		var rows []listRow
		for _, prompt := range prompts {
			var takes []string
			for _, a := range prompt.Arguments {
				takes = append(takes, argumentName(a.Name, a.Required))
			}
			rows = append(rows, listRow{name: prompt.Name, takes: strings.Join(takes, " "), description: prompt.Description})
		}
		return prompts, rows, err
	})
}

func (p *program) getCommand() *cli.Command {
	return p.conversation(&cli.Command{
		Name:      "get",
		Usage:     "get a prompt and answer what it asks",
		ArgsUsage: "PROMPT [name=value ...]",
		Description: `Gets the messages of a server's prompt and prints them. What the server asks on the way is
answered as with saga call. The arguments of prompts are texts; name=@file takes that of a
file.

Examples:
   saga get write_text topic=tea
   saga get write_text topic=@topic.txt --output json`,
	}, "prompt", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (ending, error) {
		given, err := texts(c.Args().Tail())
		if err != nil {
			return nil, err
		}
		return p.prompt(connection.GetPrompt(ctx, c.Args().First(), given, handlers))
	})
}

func (p *program) prompt(result *client.PromptResult, err error) (ending, error) {
	return func(c *cli.Command, _ bool) error {
		if c.String("output") == "json" {
			return p.printJSON(result.Raw)
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

// listCommand is a command that prints what read returns, as JSON or as a table.
func (p *program) listCommand(name, inJSON, description string, read func(context.Context, *client.Client) (any, []listRow, error)) *cli.Command {
	return &cli.Command{
		Name: name, Usage: "list the " + name + " of a server", Description: description,
		Flags: append([]cli.Flag{stringFlag("output", "text, or json with "+inJSON, "text")}, serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := p.noArguments(c); err != nil {
				return err
			}
			connection, err := p.connect(c, new(state.Call), 0)
			if err != nil {
				return err
			}
			defer connection.Close()
			all, rows, err := read(ctx, connection)
			if err != nil {
				return p.serverFailed(err)
			}
			if c.String("output") == "json" {
				return p.printJSON(all)
			}
			return p.printList(name, rows)
		},
	}
}

func (p *program) printList(name string, rows []listRow) error {
	if len(rows) == 0 {
		p.say("The server has no %s.", name)
		return nil
	}
	table := p.table()
	for _, row := range rows {
		fmt.Fprintf(table, "%s%s\t%s\t%s\n", row.mark, plain.Line(row.name), plain.Line(row.takes), plain.Line(row.description))
	}
	return failed(table.Flush())
}
