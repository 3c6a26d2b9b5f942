package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
)

func (p *program) toolsCommand() *cli.Command {
	return p.listCommand("tools", "Lists what a server offers. Tools marked * may ask something before they have a result.", func(ctx context.Context, connection *client.Client) (any, []listRow, error) {
		tools, err := connection.Tools(ctx)
		var rows []listRow
		for _, tool := range tools {
			mark := "  "
			if tool.IsSaga() {
				mark = "* "
			}
			rows = append(rows, listRow{mark + plain.Line(tool.Name), argumentNames(tool.InputSchema), tool.Description})
		}
		return tools, rows, err
	})
}

// argumentNames shows a tool's arguments as they are given to saga call.
func argumentNames(inputSchema json.RawMessage) string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	_ = json.Unmarshal(inputSchema, &schema) // what it does not say is not shown
	var names []string
	for name := range schema.Properties {
		names = append(names, argumentName(plain.Line(name), slices.Contains(schema.Required, name)))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func argumentName(name string, required bool) string {
	if required {
		return name + "="
	}
	return "[" + name + "=]"
}

func (p *program) promptsCommand() *cli.Command {
	return p.listCommand("prompts", "Lists the prompts that a server offers, with their arguments; those in brackets may be left out.", func(ctx context.Context, connection *client.Client) (any, []listRow, error) {
		prompts, err := connection.Prompts(ctx)
		var rows []listRow
		for _, prompt := range prompts {
			var takes []string
			for _, a := range prompt.Arguments {
				takes = append(takes, argumentName(a.Name, a.Required))
			}
			rows = append(rows, listRow{plain.Line(prompt.Name), strings.Join(takes, " "), prompt.Description})
		}
		return prompts, rows, err
	})
}

func (p *program) resourcesCommand() *cli.Command {
	return p.listCommand("resources", `Lists the resources that a server offers, and its templates: addresses with places {such}
as these, which saga read fills in.`, func(ctx context.Context, connection *client.Client) (any, []listRow, error) {
		resources, err := connection.Resources(ctx)
		if err != nil {
			return nil, nil, err
		}
		templates, err := connection.ResourceTemplates(ctx)
		var rows []listRow
		for _, r := range resources {
			rows = append(rows, listRow{plain.Line(r.URI), r.MIMEType, r.Description})
		}
		for _, t := range templates {
			rows = append(rows, listRow{plain.Line(t.URITemplate), t.MIMEType, t.Description})
		}
		return map[string]any{"resources": orEmpty(resources), "resourceTemplates": orEmpty(templates)}, rows, err
	})
}

// listRow is a line of a list: what a thing is called, what it takes, what it is.
type listRow struct{ name, takes, description string }

// listCommand is a command that prints what read returns, as JSON or as a table.
func (p *program) listCommand(name, description string, read func(context.Context, *client.Client) (any, []listRow, error)) *cli.Command {
	return &cli.Command{
		Name: name, Usage: "list the " + name + " of a server", Description: description,
		Flags: append([]cli.Flag{outputFlag()}, serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := p.noArguments(c); err != nil {
				return err
			}
			return p.withClient(ctx, c, new(state.Call), func(ctx context.Context, connection *client.Client) error {
				all, rows, err := read(ctx, connection)
				if err != nil {
					return p.serverFailed(err)
				}
				if c.String("output") == "json" {
					return p.printJSON(all)
				}
				return printRows(p, c, rows, "The server has no "+name+".", "", func(row listRow) string {
					return fmt.Sprintf("%s\t%s\t%s", row.name, plain.Line(row.takes), plain.Line(row.description))
				})
			})
		},
	}
}
