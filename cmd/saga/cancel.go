package main

import (
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
)

func (p *program) cancelCommand() *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a saved call and undo what its tool has done",
		ArgsUsage: "NAME",
		Description: `Ends a call that was saved when it was stopped, instead of going on with it. NAME is one that
saga calls lists, or a file. The server undoes what the tool has done so far, and says what
could not be undone. Then the call is forgotten; if something is left, it is kept, so that
the command can be given again.

Example:
   saga cancel 20260728-150000-ABCDEF`,
		Flags: append([]cli.Flag{stringFlag("output", "text, or json for the whole result", "text")}, serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() != 1 {
				return usage(c, "which saved call? %s calls lists them", p.self)
			}
			path := state.Path(c.Args().First())
			saved, err := state.Load(path)
			if err != nil {
				return p.notSaved(err)
			}
			connection, err := p.connect(c, saved, 0)
			if err != nil {
				return err
			}
			defer connection.Close()
			result, err := connection.Cancel(ctx, saved.Position)
			if refusal := tokenRefused(err); refusal != nil {
				return &exitError{exitServer, errors.New(p.refusedCancel(saved, path, refusal))}
			}
			if err != nil {
				return p.serverFailed(err)
			}
			if !result.Outstanding() {
				_ = os.Remove(path) // the call is over
			}
			return p.finish(c, result, false)
		},
	}
}
