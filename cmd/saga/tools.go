package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
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
			if c.NArg() > 0 {
				return usage(c, "saga tools takes no arguments")
			}
			connection, err := p.connect(c, new(state.Call), 0)
			if err != nil {
				return err
			}
			defer connection.Close()
			tools, err := connection.Tools(ctx)
			if err != nil {
				return serverFailed(err)
			}
			if c.String("output") == "json" {
				raw, err := json.Marshal(tools)
				if err != nil {
					return failed(err)
				}
				return failed(p.printJSON(raw))
			}
			return failed(p.printTools(tools))
		},
	}
}

// serverFailed marks an error of talking to a server.
func serverFailed(err error) error {
	err = withAdvice(err)
	if code := exitCode(err); code != exitUsage {
		return &exitError{code, err}
	}
	return &exitError{exitServer, err}
}

func (p *program) printTools(tools []client.Tool) error {
	table := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	for _, tool := range tools {
		mark := " "
		if tool.IsSaga() {
			mark = "*"
		}
		fmt.Fprintf(table, "%s %s\t%s\t%s\n", mark, plain.Line(tool.Name), argumentNames(tool.InputSchema), plain.Line(tool.Description))
	}
	return table.Flush()
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
