package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
)

func (p *program) callsCommand() *cli.Command {
	return &cli.Command{
		Name:  "calls",
		Usage: "list the calls that were saved, and remove them",
		Description: `Lists the calls that were stopped and saved: their names, when they were saved, until when
the server takes them up again, and what they wait for. Go on with one by
--resume NAME, end it with saga cancel NAME, forget it with saga calls rm NAME.

Until when a call can be resumed is sealed in its token. The list says it if the keyset is
that of the server, as your own is for a server that you started.

What is older than 30 days is removed by itself.`,
		Flags:  append([]cli.Flag{outputFlag()}, keysetFlags()...),
		Action: p.listCalls,
		Commands: []*cli.Command{{
			Name:      "rm",
			Usage:     "remove saved calls",
			ArgsUsage: "NAME ...",
			Description: `Removes saved calls, by name or file. They cannot be resumed then, and what their tools have
done stays done: saga cancel undoes it.`,
			Flags: append([]cli.Flag{
				boolFlag("all", "remove all of them"),
				boolFlag("expired", "remove those that no server takes up again, as far as that is known"),
			}, keysetFlags()...),
			Action: p.removeCalls,
		}},
	}
}

func keysetFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("keyset", "the keyset `FILE` (default: this user's own)", ""),
		stringFlag("audience", "the `NAME` of the deployment", ""),
	}
}

type callRow struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Server  string    `json:"server,omitempty"`
	Saved   time.Time `json:"saved"`
	// Expires is nil if it is not known.
	Expires *time.Time `json:"expires,omitempty"`
	Waits   string     `json:"waitsFor,omitempty"`
	Error   string     `json:"error,omitempty"`
}

func (p *program) listCalls(_ context.Context, c *cli.Command) error {
	if err := p.noArguments(c); err != nil {
		return err
	}
	state.Clean(time.Now())
	saved, err := state.List()
	if err != nil {
		return failed(err)
	}
	look := newInspector(c)
	var rows []callRow
	for _, s := range saved {
		rows = append(rows, describeCall(s, look))
	}
	return printRows(p, c, rows, "There are no saved calls.", "NAME\tOF\tSERVER\tSAVED\tRESUMABLE\tWAITS FOR", func(row callRow) string {
		if row.Error != "" {
			return fmt.Sprintf("%s\t\t\t%s\t\tcannot be read: %s", plain.Line(row.Name), ago(row.Saved), plain.Line(row.Error))
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", plain.Line(row.Name), cell(row.Kind+" "+row.Subject), cell(row.Server), ago(row.Saved), until(row.Expires), cell(row.Waits))
	})
}

func describeCall(s state.Saved, look *inspector) callRow {
	row := callRow{Name: s.Name, Saved: s.At}
	if s.Err != nil {
		row.Error = s.Err.Error()
		return row
	}
	position := s.Call.Position
	row.Kind, row.Subject, row.Server = position.Kind(), position.Subject(), s.Call.URL+s.Call.Stdio
	if at := look.expiry(position.Token); !at.IsZero() {
		row.Expires = &at
	}
	row.Waits = "the server"
	if pending := position.Pending(); len(pending) > 0 {
		row.Waits = waitsFor(pending[0])
	}
	return row
}

func waitsFor(step client.Step) string {
	var params struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(step.Params, &params) == nil && params.Message != "" {
		return params.Message
	}
	return step.Type + " " + step.StepID
}

func (p *program) removeCalls(_ context.Context, c *cli.Command) error {
	names, all, expired := c.Args().Slice(), c.Bool("all"), c.Bool("expired")
	if (len(names) > 0) == (all || expired) {
		return p.usage(c, "name the calls to remove, or use --all or --expired")
	}
	var paths []string
	for _, name := range names {
		path, err := removable(name)
		if err != nil {
			return p.notSaved(err)
		}
		paths = append(paths, path)
	}
	if all || expired {
		saved, err := state.List()
		if err != nil {
			return failed(err)
		}
		look := newInspector(c)
		for _, s := range saved {
			row := describeCall(s, look)
			if all || row.Expires != nil && time.Now().After(*row.Expires) {
				paths = append(paths, s.Path)
			}
		}
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			return failed(err)
		}
	}
	p.say("saga: removed %s", count(len(paths), "saved call"))
	return nil
}

func (p *program) notSaved(err error) error {
	if errors.Is(err, state.ErrMissing) {
		err = fmt.Errorf("%w; %s calls lists what is saved", err, p.self)
	}
	return &exitError{exitUsage, err}
}

// removable returns the file of a saved call. What is no saved call is not removed,
// unless it is where only saved calls are.
func removable(name string) (string, error) {
	path := state.Path(name)
	_, err := state.Load(path)
	if err == nil {
		return path, nil
	}
	if dir, _ := state.Dir(); dir != "" && filepath.Dir(path) == dir && !errors.Is(err, state.ErrMissing) {
		return path, nil
	}
	return "", err
}
