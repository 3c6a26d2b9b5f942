package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/answers"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/arguments"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/model"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
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
on with --resume, on any server that has the same keys; nothing is asked twice.

An --answers file is a JSON object of step ids and answers, for use without a terminal:
   {"target": {"environment": "production"}, "advice": "Yes, it is safe."}
Forms take an object, "decline" or "cancel"; links take "accept", "decline" or "cancel";
sampling steps take a text, or null to refuse.

Examples:
   saga call release_notes
   saga call complex_tool initial_arg=value --answers answers.json --output json
   saga call deploy count=3 --stdio "./my-server --verbose"
   SAGA_MODEL=gpt-4.1 OPENAI_API_KEY=... saga call release_notes
   saga call --resume saved.json

` + exitCodesHelp,
		Flags: append([]cli.Flag{
			stringFlag("json", "the arguments as a JSON `OBJECT`, @FILE, or - for standard input", ""),
			stringFlag("answers", "answer every question from a JSON `FILE` (- for standard input)", ""),
			stringFlag("output", "text, or json for the whole result", "text"),
			stringFlag("save", "keep the position in `FILE` all the time, not only when interrupted", ""),
			stringFlag("resume", "go on with the call saved in `FILE`", ""),
			&cli.IntFlag{Name: "max-rounds", Usage: "how often the tool may ask before the call stops", Value: client.DefaultMaxRounds, Sources: env("max-rounds")},
			listFlag("root", "a `DIR` to name when the tool asks where you work"),
			stringFlag("model", "the `NAME` of the model that answers sampling steps", ""),
			stringFlag("model-provider", "openai (and whatever is compatible), anthropic, or none", ""),
			stringFlag("model-url", "the base `URL` of the model's API", ""),
			stringFlag("model-key", "the API `KEY`; better given as SAGA_MODEL_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY", ""),
			boolFlag("model-hints", "let the server's hints choose another model of the provider"),
			boolFlag("yes-sampling", "let the model answer without asking you first"),
		}, serverChoice()...),
		Action: p.call,
	}
}

func (p *program) call(ctx context.Context, c *cli.Command) error {
	if output := c.String("output"); output != "text" && output != "json" {
		return usage(c, "--output is text or json, not %q", output)
	}
	saved, err := p.savedCall(c)
	if err != nil {
		return err
	}
	asker, err := p.newAsker(c)
	if err != nil {
		return err
	}
	roots, err := namedRoots(c.StringSlice("root"))
	if err != nil {
		return failed(err)
	}
	connection, err := p.connect(c, saved, c.Int("max-rounds"))
	if err != nil {
		return err
	}
	defer connection.Close()

	handlers := client.Handlers{Elicit: asker.elicit, Sample: asker.sample, Roots: roots}
	if path := c.String("save"); path != "" {
		handlers.OnPosition = func(_ context.Context, position client.Position) error {
			saved.Position = position
			return saved.Save(path)
		}
	}
	var result *client.Result
	if c.String("resume") != "" {
		result, err = connection.Resume(ctx, saved.Position, handlers)
	} else {
		var given map[string]any
		tool := c.Args().First()
		if given, err = p.arguments(ctx, c, connection, tool); err != nil {
			return err
		}
		result, err = connection.Call(ctx, tool, given, handlers)
	}
	if err != nil {
		return p.interrupted(c, saved, err)
	}
	for _, path := range []string{c.String("save"), c.String("resume")} {
		if path != "" {
			_ = os.Remove(path) // the call is over
		}
	}
	return p.finish(c, result, asker.refused)
}

// savedCall is the call to resume, or an empty one.
func (p *program) savedCall(c *cli.Command) (*state.Call, error) {
	path := c.String("resume")
	if path == "" {
		if c.NArg() == 0 {
			return nil, usage(c, "which tool? saga tools lists them")
		}
		return new(state.Call), nil
	}
	if c.NArg() > 0 || c.String("json") != "" {
		return nil, usage(c, "--resume goes on with the arguments the call was made with; give it alone")
	}
	saved, err := state.Load(path)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return saved, nil
}

func (p *program) newAsker(c *cli.Command) (*asker, error) {
	a := &asker{p: p, yes: c.Bool("yes-sampling"), term: term.New(p.stdin, p.stderr, os.Getenv)}
	if path := c.String("answers"); path != "" {
		if path == "-" && c.String("json") == "-" {
			return nil, usage(c, "--answers and --json cannot both be read from the standard input")
		}
		file, err := answers.Load(path)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		a.file = file
	}
	chosen, err := model.New(model.Config{
		Provider: c.String("model-provider"), BaseURL: c.String("model-url"), Key: c.String("model-key"),
		Model: c.String("model"), Hints: c.Bool("model-hints"), Getenv: os.Getenv,
	})
	a.model = chosen
	return a, err
}

func namedRoots(dirs []string) (func(context.Context, *client.RootsRequest) (*client.RootsResult, error), error) {
	if len(dirs) == 0 {
		return nil, nil // answered with "not supported"
	}
	result := new(client.RootsResult)
	for _, dir := range dirs {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		result.Roots = append(result.Roots, client.Root{URI: fileURI(absolute), Name: filepath.Base(absolute)})
	}
	return func(context.Context, *client.RootsRequest) (*client.RootsResult, error) { return result, nil }, nil
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
		return nil, serverFailed(err)
	}
	for _, candidate := range tools {
		if candidate.Name == tool {
			return arguments.Parse(base, words, candidate.InputSchema)
		}
	}
	return nil, &exitError{exitUsage, fmt.Errorf("the server has no tool %q; saga tools lists what it has", tool)}
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

// interrupted saves where the call stands and says how to go on.
func (p *program) interrupted(c *cli.Command, saved *state.Call, err error) error {
	var stopped *client.Interrupted
	if !errors.As(err, &stopped) {
		return err
	}
	cause := stopped.Err
	if stoppedByUser(cause) && exitCode(cause) == exitInterrupted {
		cause = &exitError{exitInterrupted, errors.New("stopped")}
	}
	if stopped.Position.Token == "" {
		return withAdvice(cause) // the server had not begun, so there is nothing to keep
	}
	path := c.String("save")
	if path == "" {
		path = c.String("resume")
	}
	if path == "" {
		fresh, err := state.NewPath(time.Now())
		if err != nil {
			return &exitError{exitCode(cause), fmt.Errorf("%w\nThe call could not be saved: %w", cause, err)}
		}
		path = fresh
	}
	saved.Position = stopped.Position
	if err := saved.Save(path); err != nil {
		return &exitError{exitCode(cause), fmt.Errorf("%w\nThe call could not be saved: %w", cause, err)}
	}
	return &exitError{exitCode(cause), fmt.Errorf("%w\nThe call is saved. Go on with:\n  saga call --resume %s", cause, path)}
}
