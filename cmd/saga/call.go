package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/arguments"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
)

func (p *program) callCommand() *cli.Command {
	return p.conversation(&cli.Command{
		Name:      "call",
		Usage:     "call a tool and answer what it asks",
		ArgsUsage: "TOOL [name=value ...]",
		Description: `Calls a tool of a server. Forms are asked at this terminal. What the tool asks of a
language model is answered by the model of --model-provider, after you have seen what
would be sent and agreed, or else by you.

Values get the types that the tool's input schema gives them. name:=json takes any JSON,
name=@file the text of a file; a name given twice makes a list.

Ctrl-C stops the call and saves where it stands, and so does losing the terminal or the
server. It goes on with --resume, on any server that has the same keys; nothing is asked twice. What is
saved is listed by saga calls. A call that has become a task goes on at the server: see
saga tasks.

Any MCP server will do. Which protocol it speaks is found out, unless --protocol says it;
over revisions before 2026-07-28 a call that is stopped is over, and its task is cancelled.
There questions have no ids: the first form is elicitation-1, the second one elicitation-2,
and so on.

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
   saga call repo_report --detach`,
		Flags: []cli.Flag{
			stringFlag("json", "the arguments as a JSON `OBJECT`, @FILE, or - for standard input", ""),
			stringFlag("to", "write images, audio and files of the result into the directory `DIR`", ""),
			boolFlag("detach", "stop as soon as the call can go on later, and print the name that it is saved as"),
		},
	}, "tool", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (ending, error) {
		tool := c.Args().First()
		given, err := p.arguments(ctx, c, connection, tool)
		if err != nil {
			return nil, err
		}
		result, err := connection.Call(ctx, tool, given, handlers)
		if stopped, ok := errors.AsType[*client.InterruptedError](err); ok && tokenRefused(err) != nil && !begun(stopped.Position) {
			if tools, err := connection.Tools(ctx); err == nil {
				stopped.Err = fmt.Errorf("%w%s", stopped.Err, meantTool(tool, tools))
			}
		}
		return p.tool(result, err)
	})
}

// arguments reads --json and the words after the tool, which need its schema.
func (p *program) arguments(ctx context.Context, c *cli.Command, connection *client.Client, tool string) (map[string]any, error) {
	base, err := p.jsonArguments(c)
	words := c.Args().Tail()
	if err != nil || len(words) == 0 {
		return base, err
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
	return nil, &exitError{exitUsage, fmt.Errorf("the server has no tool %q%s; %s tools lists what it has", tool, meantTool(tool, tools), p.self)}
}

// meantTool is what to add to an error about a tool that may have been misspelt.
func meantTool(given string, tools []client.Tool) string {
	var names []string
	for _, tool := range tools {
		if tool.Name == given {
			return ""
		}
		names = append(names, tool.Name)
	}
	return didYouMean(given, "", names)
}

// askedOldWay finds the requests by which servers ask in older revisions of MCP, and what they say of
// tools that must be tasks of one.
var askedOldWay = regexp.MustCompile(`elicitation/create|sampling/createMessage|roots/list|task augmentation`)

// olderAdvice is what to add to a server's error if it seems to have asked by a request, though
// what was spoken has none: the server decides that for itself, whatever revision it has agreed to.
func olderAdvice(c *cli.Command, text string) string {
	if c.String("protocol") != "" || strings.Contains(text, "--protocol") || !askedOldWay.MatchString(text) {
		return ""
	}
	return "\nIf it asks as servers of older revisions of MCP do, speak one of these with it: --protocol 2025-11-25"
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
	err = decoder.Decode(&base)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, p.usage(c, "--json must be a JSON object, not: %s", wrong.Value)
	}
	if err != nil {
		return nil, p.usage(c, "--json is not a JSON object: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, p.usage(c, "--json has something behind its JSON object")
	}
	return base, nil
}

func (p *program) toolsCommand() *cli.Command {
	return p.listCommand("tools", "all schemas", `Lists what a server offers. Tools marked * may ask something before they have a result.

Examples:
   saga tools
   saga tools --server https://tools.example.com/mcp
   saga tools --output json`, func(ctx context.Context, connection *client.Client) (any, []listRow, error) {
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
	})
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

// tool is the ending of a tool's call: it prints the result and decides the exit code.
func (p *program) tool(result *client.Result, err error) (ending, error) {
	return func(c *cli.Command, refused bool) error {
		text := ""
		switch {
		case c.String("output") == "json":
			if err := p.printJSON(result.Raw); err != nil {
				return err
			}
		case len(result.Content) == 0:
			text = string(result.StructuredContent)
		default:
			text = term.Blocks(result.Content)
		}
		if err := p.writeBlocks(c.String("to"), result.Content); err != nil {
			return err
		}
		if text != "" {
			p.print(text)
		}
		switch {
		case result.IsError && refused:
			return &exitError{exitDeclined, errors.New("")} // the tool has said so itself
		case result.IsError:
			return &exitError{exitFailed, errors.New("the tool reported an error" + olderAdvice(c, text))}
		}
		return nil
	}, err
}

// print writes a server's text to the standard output: as it is for a program,
// harmless for a terminal.
func (p *program) print(text string) {
	if term.Is(p.stdout) {
		text = plain.Text(text)
	}
	fmt.Fprintln(p.stdout, strings.TrimRight(text, "\n"))
}

// printRows writes what a list holds: as JSON, or as a table, or that there is nothing.
func printRows[T any](p *program, c *cli.Command, rows []T, nothing, heads string, columns func(T) string) error {
	switch {
	case c.String("output") == "json":
		return p.printJSON(orEmpty(rows))
	case len(rows) == 0:
		p.say("%s", nothing)
		return nil
	}
	table := p.table(strings.Split(heads, "\t")...)
	for _, row := range rows {
		fmt.Fprintln(table, columns(row))
	}
	return failed(table.Flush())
}

// table writes to the standard output what tabs separate, in columns below their heads.
func (p *program) table(heads ...string) *term.Table { return term.NewTable(p.stdout, heads...) }

// printJSON writes JSON, or a value as JSON, indented. JSON has no control characters of
// its own.
func (p *program) printJSON(value any) error {
	raw, isRaw := value.(json.RawMessage)
	var indented bytes.Buffer
	var err error
	if !isRaw {
		raw, err = json.Marshal(value)
	}
	if err == nil {
		err = json.Indent(&indented, raw, "", "  ")
	}
	if err != nil {
		return failed(err)
	}
	p.print(indented.String())
	return nil
}
