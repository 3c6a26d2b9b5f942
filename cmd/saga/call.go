package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"
	"github.com/yosida95/uritemplate/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/arguments"
)

func (p *program) callCommand() *cli.Command {
	return p.conversation(&cli.Command{
		Name:      "call",
		Usage:     "call a tool and answer what it asks",
		ArgsUsage: "TOOL [name=value ...]",
		Description: `Calls a tool of any MCP server. Forms are asked at this terminal. What the tool asks of a
language model is answered by the model of --model-provider, after you have seen what
would be sent and agreed, or else by you.

Values get the types that the tool's input schema gives them. name:=json takes any JSON,
name=@file the text of a file; a name given twice makes a list.

Ctrl-C stops the call and saves where it stands, and so does losing the terminal or the
server. --resume continues it, on any server that has the same keys; nothing is asked
twice. saga calls lists what is saved. The server continues a call that has become a
task: see saga tasks. Over revisions of MCP before 2026-07-28 a call that is stopped is
over.

An --answers file is a JSON object of step ids and answers, for use without a terminal:
   {"target": {"environment": "production"}, "advice": "Yes, it is safe."}
Forms take an object, "decline" or "cancel"; links take "accept", "decline" or "cancel";
sampling steps take a text, or null to refuse. Questions of revisions before 2026-07-28
have no ids: there the first form is elicitation-1, the second one elicitation-2.

Examples:
   saga call release_notes
   saga call complex_tool initial_arg=value --answers answers.json --output json
   saga call deploy count=3 --stdio "./my-server --verbose"
   SAGA_MODEL=gpt-4.1 OPENAI_API_KEY=... saga call release_notes
   saga call --resume 20260728-150000-ABCDEF`,
		Flags: []cli.Flag{
			stringFlag("json", "the arguments as a JSON `OBJECT`, @FILE, or - for standard input", ""),
			stringFlag("to", "write images, audio and files of the result into the directory `DIR`", ""),
			boolFlag("detach", "stop as soon as the call can be resumed later, and print the name that it is saved as"),
		},
	}, "tool", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (*outcome, error) {
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
		return ofTool(result), err
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
		ArgsUsage: "URI [name=value ...]",
		Description: `Reads a resource of a server and prints it. The URI may be a template with places {such} as
these; name=value fills them in. What the server asks on the way is answered as with
saga call.

What is not text is written to the FILE of --to, or to the standard output if that is no
terminal. A resource of several parts is written into the directory of --to, one file
each; no file there is replaced.

Examples:
   saga read notes://today
   saga read 'files://people/{id}' id=7
   saga read images://logo --to logo.png`,
		Flags: []cli.Flag{stringFlag("to", "write the contents to `FILE`, or several into a directory", "")},
	}, "resource", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (*outcome, error) {
		uri, err := expand(c.Args().First(), c.Args().Tail())
		if err != nil {
			return nil, err
		}
		result, err := connection.ReadResource(ctx, uri, handlers)
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
	var values map[string]json.RawMessage // which stay as they are, such as large numbers
	err = json.Unmarshal(text, &values)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, p.usage(c, "--json must be a JSON object, not: %s", wrong.Value)
	}
	if err != nil {
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
			return nil, &arguments.Error{Reason: name + " takes one text: write " + name + "=value, once"}
		}
		given[name] = text
	}
	return given, nil
}

// expand fills the words of a command line into a URI template.
func expand(template string, words []string) (string, error) {
	given, err := texts(words)
	if err != nil {
		return "", err
	}
	parsed, err := uritemplate.New(template)
	if err != nil {
		return "", &arguments.Error{Reason: fmt.Sprintf("%q is no URI and no template of one: %v", template, err)}
	}
	values := uritemplate.Values{}
	for _, name := range parsed.Varnames() {
		value, ok := given[name]
		if !ok {
			return "", &arguments.Error{Reason: fmt.Sprintf("%s is missing: the template has a place {%[1]s}, so add %[1]s=VALUE", name)}
		}
		values[name] = uritemplate.String(value)
		delete(given, name)
	}
	for name := range given {
		return "", &arguments.Error{Reason: fmt.Sprintf("the URI has no place {%s}", name)}
	}
	if len(values) == 0 {
		return template, nil
	}
	return parsed.Expand(values)
}
