package main

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
)

// beginning starts something that may ask: a tool, prompt or resource.
type beginning func(context.Context, *cli.Command, *client.Client, client.Handlers) (*outcome, error)

// conversation completes a command that has begin start something.
func (p *program) conversation(c *cli.Command, kind string, begin beginning) *cli.Command {
	c.Description += "\n\n" + exitCodesHelp
	c.Flags = append(c.Flags,
		outputFlag(),
		stringFlag("save", "keep the position in `FILE` all the time, not only when interrupted", ""),
		stringFlag("resume", "continue the "+c.Name+" saved as `NAME`, or in a file", ""))
	c.Flags = slices.Concat(c.Flags, answeringFlags(c.Name), serverChoice())
	c.Action = func(ctx context.Context, c *cli.Command) error {
		switch resumed := c.String("resume") != ""; {
		case resumed && (c.NArg() > 0 || c.String("json") != ""):
			return p.usage(c, "--resume has the arguments the call was made with; give it alone")
		case resumed && c.Bool("detach"):
			return p.usage(c, "--detach is for a call that begins; one that is saved is detached")
		case !resumed && c.NArg() == 0:
			return p.usage(c, "which %s? %s %ss lists them", kind, p.self, kind)
		}
		return p.converse(ctx, c, begin)
	}
	return c
}

// mayReplace fails if there is something at the path of --save that would be lost when a call is
// saved there, and removed when it is over.
func mayReplace(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	if _, err := state.Load(path); !errors.Is(err, state.ErrMissing) {
		return err
	}
	return nil
}

// converse has begin start something, or resumes what --resume names. It saves where that
// stands if it is stopped, and prints its outcome.
func (p *program) converse(ctx context.Context, c *cli.Command, begin beginning) error {
	saved, resumed, save := new(state.Call), "", c.String("save")
	if name := c.String("resume"); name != "" {
		resumed = state.Path(name)
		var err error
		if saved, err = state.Load(resumed); err != nil {
			return p.notSaved(err)
		}
	}
	if err := mayReplace(save); err != nil {
		return p.usage(c, "--save would not keep what is there: %w", err)
	}
	asker, handlers, err := p.newAsker(c)
	if err != nil {
		return err
	}
	p.bar = term.NewBar(p.stderr, os.Getenv)
	defer p.bar.Clear()
	if p.bar != nil {
		handlers.OnProgress = p.bar.Show
	}
	handlers.OnPosition = func(_ context.Context, position client.Position) error {
		saved.Position = position
		switch {
		case asker.detach:
			return errDetached
		case save != "":
			return saved.Save(save)
		}
		return nil
	}
	return p.withClient(ctx, c, saved, func(ctx context.Context, connection *client.Client) error {
		p.bar.Expect()
		var result *outcome
		if resumed != "" {
			result, err = resume(ctx, connection, saved.Position, handlers)
		} else {
			result, err = begin(ctx, c, connection, handlers)
		}
		p.bar.Clear()
		switch {
		case errors.Is(err, errDetached):
			return p.detached(c, saved)
		case err != nil:
			return p.interrupted(c, saved, resumed, asker.refused, err)
		}
		err = p.end(c, result, asker.refused)
		if err != nil && exitCode(err) == exitUsage && begun(saved.Position) {
			// The result cannot be put where it was to go: keep the way to it.
			return p.interrupted(c, saved, resumed, false, &client.InterruptedError{Position: saved.Position, Err: err})
		}
		forget(save, resumed)
		return err
	})
}

func resume(ctx context.Context, connection *client.Client, position client.Position, handlers client.Handlers) (*outcome, error) {
	switch position.Kind() {
	case "prompt":
		result, err := connection.ResumePrompt(ctx, position, handlers)
		return ofPrompt(result), err
	case "resource":
		result, err := connection.ResumeResource(ctx, position, handlers)
		return ofResource(result), err
	}
	result, err := connection.Resume(ctx, position, handlers)
	return ofTool(result), err
}
