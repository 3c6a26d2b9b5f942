package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
)

func (p *program) toolsCommand() *cli.Command {
	return &cli.Command{
		Name:  "tools",
		Usage: "list the tools of a server",
		Description: `Lists what a server offers. Tools marked * may ask something before they have a result.

Examples:
   saga tools
   saga tools --server https://tools.example.com/mcp
   saga tools --output json`,
		Flags: append([]cli.Flag{stringFlag("output", "text, or json with all schemas", "text")}, serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.list(c, func(connection *client.Client) (any, []listRow, error) {
				tools, err := connection.Tools(ctx)
				var rows []listRow
				for _, tool := range tools {
					mark := "  "
					if tool.IsSaga() {
						mark = "* "
					}
					rows = append(rows, listRow{tool.Name, argumentNames(tool.InputSchema), tool.Description, mark})
				}
				return tools, rows, err
			}, "The server has no tools.")
		},
	}
}

// argumentNames shows a tool's arguments as they are given to saga call.
func argumentNames(inputSchema json.RawMessage) string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(inputSchema, &schema) != nil {
		return ""
	}
	var names []string
	for name := range schema.Properties {
		shown := plain.Line(name) + "="
		if !slices.Contains(schema.Required, name) {
			shown = "[" + shown + "]"
		}
		names = append(names, shown)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
