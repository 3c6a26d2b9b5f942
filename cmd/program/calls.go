package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
)

func (p *program) callsCommand() *cli.Command {
	return &cli.Command{
		Name:  "calls",
		Usage: "list the calls that were saved, and remove them",
		Description: `Lists the calls that were stopped and saved, the oldest first: their names, when they were
saved, and what they wait for. Resume one by --resume NAME, end it with {program} cancel NAME, forget it with
{program} calls rm NAME. What is older than 30 days is removed by itself.`,
		Flags:  []cli.Flag{p.outputFlag()},
		Action: p.listCalls,
		Commands: []*cli.Command{{
			Name:      "rm",
			Usage:     "remove saved calls",
			ArgsUsage: "NAME ...",
			Description: `Removes saved calls, by name or file. They cannot be resumed then, and what their tools have
done stays done: {program} cancel undoes it.`,
			Flags:  []cli.Flag{p.boolFlag("all", "remove all of them")},
			Action: p.removeCalls,
		}},
	}
}

type callRow struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Server  string    `json:"server,omitempty"`
	Saved   time.Time `json:"saved"`
	Waits   string    `json:"waitsFor,omitempty"`
	Error   string    `json:"error,omitempty"`
}

func (p *program) listCalls(_ context.Context, c *cli.Command) error {
	saved, err := state.List(time.Now())
	if err != nil {
		return failed(err)
	}
	var rows []callRow
	for _, s := range saved {
		row := callRow{Name: s.Name, Saved: s.At}
		if s.Err != nil {
			row.Error = s.Err.Error()
		} else {
			position := s.Call.Position
			row.Kind, row.Subject, row.Server, row.Waits = position.Kind(), position.Subject(), s.Call.URL+s.Call.Stdio, "the server"
			if pending := position.Pending(); len(pending) > 0 {
				row.Waits = waitsFor(pending[0])
			}
		}
		rows = append(rows, row)
	}
	return printRows(p, c, rows, "There are no saved calls.", "NAME\tOF\tSERVER\tSAVED\tWAITS FOR", func(row callRow) string {
		waits := cell(row.Waits)
		if row.Error != "" {
			waits = "cannot be read: " + plain.Line(row.Error)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", plain.Line(row.Name), cell(row.Kind+" "+row.Subject), cell(row.Server), ago(row.Saved), waits)
	})
}

// waitsFor is the question of a step, or else its id.
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
	names, all := c.Args().Slice(), c.Bool("all")
	if (len(names) > 0) == all {
		return p.usage(c, "name the calls to remove, or use --all")
	}
	var paths []string
	for _, name := range names {
		path, err := removable(name)
		if err != nil {
			return p.notSaved(err)
		}
		paths = append(paths, path)
	}
	if all {
		saved, err := state.List(time.Now())
		if err != nil {
			return failed(err)
		}
		for _, s := range saved {
			paths = append(paths, s.Path)
		}
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			return failed(err)
		}
	}
	p.remark("removed %s", count(len(paths), "saved call"))
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

func (p *program) cancelCommand() *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a saved call and undo what its tool has done",
		ArgsUsage: "NAME",
		Description: `Ends a call that was saved when it was stopped, instead of resuming it. NAME is one that
{program} calls lists, or a file. The server undoes what the tool has done so far, and says what
could not be undone. If the call was lost in its last turn, that turn may end well after all:
then it is too late, and the result is the tool's. Then the call is forgotten; if something is
left, it is kept, so that the command can be given again, and this one exits with 1.`,
		Flags: append([]cli.Flag{p.outputFlag()}, p.serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() != 1 {
				return p.usage(c, "which saved call? %s calls lists them", p.self)
			}
			path := state.Path(c.Args().First())
			saved, err := state.Load(path)
			if err != nil {
				return p.notSaved(err)
			}
			if saved.Position.Key != "" && !begun(saved.Position) {
				return &exitError{exitFailed, errors.New(p.howToResume(saved, path))}
			}
			return p.withClient(ctx, c, saved, func(ctx context.Context, connection *client.Client) error {
				if saved.Position.Task != "" {
					return p.cancelTask(ctx, c, connection, saved, path)
				}
				result, err := connection.Cancel(ctx, saved.Position)
				if refusal := tokenRefused(err); refusal != nil {
					return &exitError{exitServer, fmt.Errorf("%s%sForget it with: %s", p.refused(saved, refusal), p.startAgain(saved.Position, ""), p.forgetLine(path))}
				}
				if errors.As(err, new(*client.PositionError)) {
					return failed(fmt.Errorf("%w\nForget it with: %s", err, p.forgetLine(path)))
				}
				if err != nil {
					return p.serverFailed(err)
				}
				left := result.Outstanding()
				if !left {
					forget(path)
				}
				err = p.end(c, ofTool(result), false)
				if left {
					p.sayLeft(path)
					err = cmp.Or(err, error(errLeft))
				}
				return err
			})
		},
	}
}
