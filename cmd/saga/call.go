package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/arguments"
)

func (p *program) callCommand() *cli.Command {
	return &cli.Command{
		Name:      "call",
		Usage:     "call a tool and answer what it asks",
		ArgsUsage: "TOOL [name=value ...]",
		Description: `Calls a tool of a server. Forms are asked at this terminal. What the tool asks of a
language model is answered by the model of --model-provider, after you have seen what
would be sent and agreed, or else by you.

Values get the types that the tool's input schema gives them. name:=json takes any JSON,
name=@file the text of a file; a name given twice makes a list.

Ctrl-C stops the call and saves where it stands, and so does losing the server. It goes
on with --resume, on any server that has the same keys; nothing is asked twice. What is
saved is listed by saga calls.

An --answers file is a JSON object of step ids and answers, for use without a terminal:
   {"target": {"environment": "production"}, "advice": "Yes, it is safe."}
Forms take an object, "decline" or "cancel"; links take "accept", "decline" or "cancel";
sampling steps take a text, or null to refuse.

Examples:
   saga call release_notes
   saga call complex_tool initial_arg=value --answers answers.json --output json
   saga call deploy count=3 --stdio "./my-server --verbose"
   SAGA_MODEL=gpt-4.1 OPENAI_API_KEY=... saga call release_notes
   saga call --resume 20260728-150000-ABCDEF

` + exitCodesHelp,
		Flags: append(append([]cli.Flag{
			stringFlag("json", "the arguments as a JSON `OBJECT`, @FILE, or - for standard input", ""),
		}, askingFlags("call")...), serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := p.oneSubject(c, "which tool? %s tools lists them", c.String("json") != ""); err != nil {
				return err
			}
			return p.converse(ctx, c, func(connection *client.Client, handlers client.Handlers) (ending, error) {
				tool := c.Args().First()
				given, err := p.arguments(ctx, c, connection, tool)
				if err != nil {
					return nil, err
				}
				return p.tool(connection.Call(ctx, tool, given, handlers))
			})
		},
	}
}

// arguments reads --json and the words after the tool, which need its schema.
func (p *program) arguments(ctx context.Context, c *cli.Command, connection *client.Client, tool string) (map[string]any, error) {
	base, err := p.jsonArguments(c)
	if err != nil {
		return nil, err
	}
	words := c.Args().Tail()
	if len(words) == 0 {
		return base, nil
	}
	tools, err := connection.Tools(ctx)
	if err != nil {
		return nil, p.serverFailed(err)
	}
	for _, candidate := range tools {
		if candidate.Name == tool {
			return arguments.Parse(base, words, candidate.InputSchema)
		}
	}
	return nil, &exitError{exitUsage, fmt.Errorf("the server has no tool %q; %s tools lists what it has", tool, p.self)}
}

func (p *program) jsonArguments(c *cli.Command) (map[string]any, error) {
	text := []byte(c.String("json"))
	var err error
	switch {
	case len(text) == 0:
		return nil, nil
	case string(text) == "-":
		text, err = io.ReadAll(p.stdin)
	case text[0] == '@':
		text, err = os.ReadFile(string(text[1:]))
	}
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--json: %w", err)}
	}
	var base map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // large numbers stay as they are
	if err := decoder.Decode(&base); err != nil {
		return nil, usage(c, "--json is not a JSON object: %v", err)
	}
	return base, nil
}
