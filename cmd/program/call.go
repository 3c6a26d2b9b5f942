package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/arguments"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
)

func (p *program) callCommand() *cli.Command {
	return p.conversation(&cli.Command{
		Name:      "call",
		Usage:     "call a tool and answer what it asks",
		ArgsUsage: "TOOL [name=value ...]",
		Description: `Calls a tool of any MCP server. Forms are asked at this terminal. What the tool asks of a
language model is answered by that of --model, if it is text, after you have seen what would
be sent and agreed, or else by you.

Values get the types that the tool's input schema gives them. name:=json takes any JSON,
name=@file the text of a file; a name given twice makes a list.

Ctrl-C stops the call and saves where it stands, and so does losing the terminal or the
server. --resume continues it, on any server that has the same keys; nothing is asked
twice. Over revisions of MCP before 2026-07-28 a call that is stopped is over.

An --answers file is a JSON object of step ids and answers, for use without a terminal:
   {"target": {"environment": "production"}, "advice": "Yes, it is safe."}
Forms take an object, "decline" or "cancel"; links take "accept", "decline" or "cancel";
sampling steps take a text, or null to refuse. Questions of revisions before 2026-07-28
have no ids: there they are elicitation-1, elicitation-2.

Examples:
   {program} call {example}
   {program} call deploy environment=production --answers answers.json --output json
   {program} call deploy count=3 --stdio "./my-server --verbose"
   {PROGRAM}_MODEL=gpt-4.1 OPENAI_API_KEY=... {program} call {example}
   {program} call --resume 20260728-150000-ABCDEF
   {program} call seat --as no-elicitation
   {program} call seat --as no-elicitation resumeToken=... answers:='{"row":{"row":"7"}}'
   {program} call seat --as apps`,
		Flags: []cli.Flag{
			p.stringFlag("json", "the arguments as a JSON `OBJECT`, @FILE, or - for standard input", ""),
			p.stringFlag("to", "write images, audio and files of the result into the directory `DIR`", ""),
			p.stringFlag("as", "show what a `HOST` gets that cannot ask its user: no-elicitation, or apps for one that shows forms of servers in its window", ""),
			p.boolFlag("detach", "stop as soon as the call can be resumed later, and print the name that it is saved as"),
		},
	}, "tool", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (*outcome, error) {
		if c.String("as") != "" {
			handlers.Elicit, handlers.Sample, handlers.Roots = nil, nil, nil
		}
		tool := c.Args().First()
		given, err := p.arguments(ctx, c, connection, tool)
		if err != nil {
			return nil, err
		}
		var result *client.Result
		if c.String("as") == "apps" {
			result, err = p.callInWindow(ctx, connection, tool, given, handlers)
		} else {
			result, err = connection.Call(ctx, tool, given, handlers)
		}
		if stopped, ok := errors.AsType[*client.InterruptedError](err); ok && !begun(stopped.Position) {
			p.explain(ctx, connection, stopped)
		}
		return ofTool(result), err
	})
}

// explain adds to why a call has not begun which tool may have been meant, and takes its key away if that leads
// to nothing: servers without a ledger do not know it again, and undo what its client leaves.
func (p *program) explain(ctx context.Context, connection *client.Client, stopped *client.InterruptedError) {
	refused := tokenRefused(stopped.Err) != nil
	if !refused && !unanswered(stopped.Position, stopped.Err) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	tools, err := connection.Tools(ctx)
	if err != nil {
		return
	}
	name := stopped.Position.Tool
	if refused {
		stopped.Err = fmt.Errorf("%w%s", stopped.Err, meantTool(name, tools))
	}
	i := slices.IndexFunc(tools, func(t client.Tool) bool { return t.Name == name })
	if i < 0 || string(tools[i].Meta["io.github.mcpsaga/idempotencyKey"]) != "true" {
		stopped.Position.Key = ""
	}
}

func (p *program) getCommand() *cli.Command {
	return p.conversation(&cli.Command{
		Name:      "get",
		Usage:     "get a prompt and answer what it asks",
		ArgsUsage: "PROMPT [name=value ...]",
		Description: `Gets the messages of a server's prompt and prints them. What the server asks on the way is
answered as with {program} call. The arguments of prompts are texts; name=@file takes that of a
file.

Examples:
   {program} get write_text topic=tea
   {program} get write_text topic=@topic.txt --output json`,
	}, "prompt", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (*outcome, error) {
		given, err := texts(c.Args().Tail())
		if err != nil {
			return nil, err
		}
		result, err := connection.GetPrompt(ctx, c.Args().First(), given, handlers)
		return ofPrompt(result), err
	})
}

func (p *program) readCommand() *cli.Command {
	return p.conversation(&cli.Command{
		Name:      "read",
		Usage:     "read a resource and answer what it asks",
		ArgsUsage: "URI",
		Description: `Reads a resource of a server and prints it. What the server asks on the way is answered as
with {program} call.

What is not text is written to the standard output if that is no terminal. With --to, each
part of a resource is written into a file of that directory; no file there is replaced.

Examples:
   {program} read notes://today
   {program} read images://logo > logo.png`,
		Flags: []cli.Flag{p.stringFlag("to", "write the contents into the directory `DIR`", "")},
	}, "resource", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (*outcome, error) {
		if c.NArg() > 1 {
			return nil, p.usage(c, "%s takes one URI", c.FullName())
		}
		result, err := connection.ReadResource(ctx, c.Args().First(), handlers)
		return ofResource(result), err
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

func (p *program) jsonArguments(c *cli.Command) (map[string]any, error) {
	given := c.String("json")
	if given == "" {
		return nil, nil
	}
	text := []byte(given)
	if path, isFile := strings.CutPrefix(given, "@"); isFile || given == "-" {
		var err error
		if text, err = p.input(path); err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("--json: %w", err)}
		}
	}
	if !utf8.Valid(text) {
		return nil, p.usage(c, "--json is not in UTF-8")
	}
	var values map[string]json.RawMessage                   // which stay as they are, such as large numbers
	if err := jsonv2.Unmarshal(text, &values); err != nil { // which refuses names that come twice
		return nil, p.usage(c, "--json is not a JSON object: %v", err)
	}
	base := make(map[string]any, len(values))
	for name, value := range values {
		base[name] = value
	}
	return base, nil
}

// texts reads name=value words whose values are texts.
func texts(words []string) (map[string]string, error) {
	parsed, err := arguments.Parse(nil, words, []byte(`{"type":"object","additionalProperties":{"type":"string"}}`))
	if err != nil {
		return nil, err
	}
	given := make(map[string]string, len(parsed))
	for name, value := range parsed {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%s takes one text: write %[1]s=value, once", name)
		}
		given[name] = text
	}
	return given, nil
}

func (p *program) toolsCommand() *cli.Command {
	return p.listCommand("tools", "Lists what a server offers. Tools marked * may ask something before they have a result.", func(ctx context.Context, connection *client.Client) (any, []string, error) {
		tools, err := connection.Tools(ctx)
		var rows []string
		for _, tool := range tools {
			mark := "  "
			if tool.IsSaga() {
				mark = "* "
			}
			rows = append(rows, listRow(mark+plain.Line(tool.Name), argumentNames(tool.InputSchema), tool.Description))
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
	return p.listCommand("prompts", "Lists the prompts that a server offers, with their arguments; those in brackets may be left out.", func(ctx context.Context, connection *client.Client) (any, []string, error) {
		prompts, err := connection.Prompts(ctx)
		var rows []string
		for _, prompt := range prompts {
			var takes []string
			for _, a := range prompt.Arguments {
				takes = append(takes, argumentName(a.Name, a.Required))
			}
			rows = append(rows, listRow(plain.Line(prompt.Name), strings.Join(takes, " "), prompt.Description))
		}
		return prompts, rows, err
	})
}

func (p *program) resourcesCommand() *cli.Command {
	return p.listCommand("resources", `Lists the resources that a server offers, and its templates: addresses with places {such}
as these, to be filled in for {program} read.`, func(ctx context.Context, connection *client.Client) (any, []string, error) {
		resources, err := connection.Resources(ctx)
		if err != nil {
			return nil, nil, err
		}
		templates, err := connection.ResourceTemplates(ctx)
		var rows []string
		for _, r := range resources {
			rows = append(rows, listRow(plain.Line(r.URI), r.MIMEType, r.Description))
		}
		for _, t := range templates {
			rows = append(rows, listRow(plain.Line(t.URITemplate), t.MIMEType, t.Description))
		}
		return map[string]any{"resources": orEmpty(resources), "resourceTemplates": orEmpty(templates)}, rows, err
	})
}

// listRow is a line of a list: what a thing is called, what it takes, what it is.
func listRow(name, takes, description string) string {
	return name + "\t" + plain.Line(takes) + "\t" + plain.Line(description)
}

// listCommand is a command that prints what read returns, as JSON or as a table.
func (p *program) listCommand(name, description string, read func(context.Context, *client.Client) (any, []string, error)) *cli.Command {
	return &cli.Command{
		Name: name, Usage: "list the " + name + " of a server", Description: description,
		Flags: append([]cli.Flag{p.outputFlag()}, p.serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.withClient(ctx, c, new(state.Call), func(ctx context.Context, connection *client.Client) error {
				all, rows, err := read(ctx, connection)
				if err != nil {
					return p.serverFailed(err)
				}
				if c.String("output") == "json" {
					return p.printJSON(all)
				}
				return printRows(p, c, rows, "The server has no "+name+".", "", func(row string) string { return row })
			})
		},
	}
}
