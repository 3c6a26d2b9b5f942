package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// openTime is how long a command waits for a ledger.
const openTime = 15 * time.Second

func (p *program) ledgerCommand() *cli.Command {
	flags := func(more ...cli.Flag) []cli.Flag {
		return append(append([]cli.Flag{ledgerFlag("this user's own")}, keysetFlags()...), more...)
	}
	return &cli.Command{
		Name:  "ledger",
		Usage: "list what a ledger has servers look after, show what happened, and have it undone",
		Description: `Lists the sagas that have done something and wait: which tool, since when, until when they
are left alone, what they have done, how often undoing that has failed and why; and the tasks
that have not ended, or could not be undone. Needs the
keyset and the audience of the servers: with others it finds nothing.

Examples:
   saga ledger
   saga ledger show 5f3a1c0e
   saga ledger --ledger sqlite:/var/lib/saga/ledger.db --keyset /etc/saga/keyset.json --audience prod
   saga ledger undo 5f3a1c0e`,
		Flags: flags(stringFlag("output", "text, or json", "text")),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.mustBeCommand(c, func(c *cli.Command) error {
				return p.withLedger(ctx, c, func(o *durable.Operator) error { return p.listLedger(ctx, c, o) })
			})
		},
		Commands: []*cli.Command{{
			Name:      "undo",
			Usage:     "have what a saga did undone now",
			ArgsUsage: "SAGA (its id, or the beginning of it)",
			Description: `Has a server that has the tool undo what the saga did, and waits for that, whether or not its
client could still come back. A turn that is under way ends first; a task is cancelled. What
could not be undone is tried once more, also if it was given up.

Exits with 1 if it is not undone.`,
			Flags: flags(&cli.DurationFlag{Name: "wait", Usage: "how long to wait for a server to do it", Value: time.Minute, Sources: env("ledger-wait")}),
			Action: func(ctx context.Context, c *cli.Command) error {
				id, err := p.oneArgument(c, "id of the saga")
				if err != nil {
					return err
				}
				return p.withLedger(ctx, c, func(o *durable.Operator) error { return p.undoSaga(ctx, c, o, id) })
			},
		}, {
			Name:      "show",
			Usage:     "show what has happened to a saga",
			ArgsUsage: "SAGA (its id, or the beginning of it)",
			Description: `Shows the history of a saga, also of one that has ended and is still remembered: what happened
when, and to which effects. What clients and tools have said is not shown, but for errors.`,
			Flags: flags(stringFlag("output", "text, or json", "text")),
			Action: func(ctx context.Context, c *cli.Command) error {
				id, err := p.oneArgument(c, "id of the saga")
				if err != nil {
					return err
				}
				return p.withLedger(ctx, c, func(o *durable.Operator) error { return p.showSaga(ctx, c, o, id) })
			},
		}, {
			Name:        "check",
			Usage:       "say whether a ledger answers and can be written",
			Description: "Leaves nothing in the ledger. Exits with 1 if it does not answer, or cannot be written.",
			Flags:       flags(),
			Action: func(ctx context.Context, c *cli.Command) error {
				if err := p.noArguments(c); err != nil {
					return err
				}
				return p.checkLedger(ctx, c)
			},
		}},
	}
}

// namedLedger returns the ledger that the flags name, if a command can look into it.
func (p *program) namedLedger(c *cli.Command) (ledgerName, error) {
	l := ledgerOf(c)
	switch path, isFile := strings.CutPrefix(l.name, ledgerSQLite); {
	case l.name == ledgerMemory:
		return l, p.usage(c, "a ledger in memory is within its server: no other process can look into it")
	case l.name == ledgerOff:
		return l, p.usage(c, "name the ledger with --ledger: sqlite:PATH or postgres://USER@HOST/DATABASE")
	case isFile && path == "", !isFile && !isPostgres(l.name):
		return l, p.usage(c, "%v", errNoSuchLedger)
	case isFile:
		// It would be created.
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return l, failed(fmt.Errorf("there is no ledger: %w\nName that of the servers with --ledger; %s serve makes one for you", err, p.self))
		}
	}
	return l, nil
}

// openNow opens a ledger that is to be there.
func (l ledgerName) openNow(ctx context.Context) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	return l.open(ctx, slog.New(slog.DiscardHandler), false)
}

// withLedger opens the ledger and the keyset that the flags name.
func (p *program) withLedger(ctx context.Context, c *cli.Command, do func(*durable.Operator) error) error {
	l, err := p.namedLedger(c)
	if err != nil {
		return err
	}
	path, err := keysetPath(c)
	if err != nil {
		return failed(err)
	}
	keys, err := codec.LoadKeyset(path)
	if err != nil {
		return failed(nameServers(err))
	}
	s, err := l.openNow(ctx)
	if err != nil {
		return failed(err)
	}
	defer closeStore(s)
	return do(durable.NewOperator(s, func() *codec.Keyset { return keys }, c.String("audience")))
}

// nameServers says what to do where there is no keyset, to a user who needs that of a server.
func nameServers(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\nname that of the server with --keyset", err)
	}
	return err
}

type waitingRow struct {
	Saga      string        `json:"saga"`
	Task      bool          `json:"task,omitempty"`
	Tool      string        `json:"tool"`
	Revision  uint32        `json:"revision"`
	State     durable.State `json:"state"`
	Since     time.Time     `json:"since,omitzero"`
	Due       *time.Time    `json:"due,omitempty"`
	Effects   []string      `json:"effects"`
	Attempts  int           `json:"attempts"`
	LastError string        `json:"lastError,omitempty"`
}

func rowOf(w durable.Waiting) waitingRow {
	row := waitingRow{
		Saga: w.Saga, Task: w.Task, Tool: w.Tool, Revision: w.Revision, State: w.State, Since: w.Began,
		Effects: w.Effects, Attempts: w.Failures, LastError: w.LastError,
	}
	if row.Effects == nil {
		row.Effects = []string{}
	}
	if !w.Due.IsZero() {
		row.Due = &w.Due
	}
	return row
}

// listedAtOnce is how many rows stand in the same columns.
const listedAtOnce = 100

// listLedger prints the list while it reads it, as it may be long.
func (p *program) listLedger(ctx context.Context, c *cli.Command, o *durable.Operator) error {
	asJSON := c.String("output") == "json"
	table := p.table("SAGA", "TOOL", "STATE", "SINCE", "UNDONE AT", "HAS DONE", "ATTEMPTS", "LAST ERROR")
	n := 0
	for w, err := range o.Waiting(ctx) {
		if err != nil {
			return failed(err)
		}
		row := rowOf(w)
		if asJSON {
			before := ","
			if n == 0 {
				before = "["
			}
			text, err := json.MarshalIndent(row, "  ", "  ")
			if err != nil {
				return failed(err)
			}
			fmt.Fprintf(p.stdout, "%s\n  %s", before, text)
		} else {
			if row.Task {
				row.Effects = []string{"(a task)"}
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", row.Saga, cell(row.Tool), row.State, ago(row.Since), due(row.Due),
				cell(strings.Join(row.Effects, ", ")), row.Attempts, plain.Short(row.LastError, 2*maxCell))
		}
		if n++; n%listedAtOnce == 0 && !asJSON {
			if err := table.Flush(); err != nil {
				return failed(err)
			}
		}
	}
	switch {
	case asJSON && n == 0:
		p.print("[]")
	case asJSON:
		p.print("\n]")
	case n == 0:
		p.sayNothingWaits()
	default:
		return failed(table.Flush())
	}
	return nil
}

// due says when a server looks at a saga again, without its client.
func due(at *time.Time) string {
	switch {
	case at == nil:
		return "never"
	case time.Until(*at) <= 0:
		return "now"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

func (p *program) sayNothingWaits() {
	p.say("Nothing waits with something to be undone, of servers with this keyset and audience. If something should, look at --keyset and --audience: with others, nothing can be found.")
}

// findSaga returns the one saga of a list whose id begins so, or nil, and whether the list has others.
func (p *program) findSaga(c *cli.Command, list iter.Seq2[durable.Waiting, error], id string) (found *durable.Waiting, others bool, err error) {
	const whole = 32
	n := 0
	for w, err := range list {
		if err != nil {
			return nil, false, failed(err)
		}
		if others = true; id == "" || !strings.HasPrefix(w.Saga, strings.ToLower(id)) {
			continue
		}
		if found = &w; len(id) == whole {
			return found, true, nil
		}
		n++
	}
	if n > 1 {
		return nil, true, p.usage(c, "%d sagas begin with %s: give more of the id", n, plain.Short(id, maxCell))
	}
	return found, others, nil
}

func (p *program) showSaga(ctx context.Context, c *cli.Command, o *durable.Operator, id string) error {
	found, _, err := p.findSaga(c, o.All(ctx), id)
	switch {
	case err != nil:
		return err
	case found == nil:
		return failed(fmt.Errorf("the ledger has no saga %s of servers with this keyset and audience, or has forgotten it", plain.Short(id, maxCell)))
	}
	type happened struct {
		N       uint64    `json:"n"`
		At      time.Time `json:"at"`
		Kind    string    `json:"kind"`
		Effects []string  `json:"effects,omitempty"`
		Text    string    `json:"text,omitempty"`
	}
	var rows []happened
	for e, err := range o.History(ctx, found.ID) {
		if err != nil {
			return failed(err)
		}
		rows = append(rows, happened(e))
	}
	return printRows(p, c, rows, "", "N\tAT\tWHAT\tEFFECTS\t", func(row happened) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", row.N, row.At.Local().Format("2006-01-02 15:04:05.000"), row.Kind,
			cell(strings.Join(row.Effects, ", ")), plain.Short(row.Text, 2*maxCell))
	})
}

func (p *program) undoSaga(ctx context.Context, c *cli.Command, o *durable.Operator, id string) error {
	before, others, err := p.findSaga(c, o.Waiting(ctx), id)
	switch {
	case err != nil:
		return err
	case before == nil && others:
		return failed(fmt.Errorf("no saga %s waits with something to be undone: %s ledger lists the sagas that wait", plain.Short(id, maxCell), p.self))
	case before == nil:
		p.sayNothingWaits()
		return failed(fmt.Errorf("no saga %s waits with something to be undone", plain.Short(id, maxCell)))
	}
	what := fmt.Sprintf("%s of %s to be undone: %s", before.Saga, before.Tool, strings.Join(before.Effects, ", "))
	if before.Task {
		what = fmt.Sprintf("the task %s of %s to be cancelled", before.Saga, before.Tool)
	}
	if err := o.UndoNow(ctx, before.ID); err != nil {
		return failed(err)
	}
	p.say("saga: asked for %s", plain.Line(what))
	return p.awaitUndo(ctx, o, before, c.Duration("wait"))
}

// awaitUndo waits until a server has undone a saga, or failed to.
func (p *program) awaitUndo(ctx context.Context, o *durable.Operator, before *durable.Waiting, limit time.Duration) error {
	const every = 250 * time.Millisecond
	for end := time.Now().Add(limit); ; {
		w, err := o.Look(ctx, before.ID)
		switch {
		case errors.Is(err, durable.ErrNothingWaits):
			p.say("saga: it is undone")
			return nil
		case err != nil:
			return failed(err)
		case w.Failures > before.Failures:
			return failed(fmt.Errorf("it could not be undone: %s\nIt is tried again at %s", plain.Line(w.LastError), due(rowOf(w).Due)))
		case !time.Now().Before(end):
			return failed(fmt.Errorf("no server has undone it within %v: is one running that has the tool %q in revision %d? It does so when it is there", limit, w.Tool, w.Revision))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

func (p *program) checkLedger(ctx context.Context, c *cli.Command) error {
	l, err := p.namedLedger(c)
	if err != nil {
		return err
	}
	s, err := l.openNow(ctx)
	if err != nil {
		return failed(err)
	}
	defer closeStore(s)
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	begun := time.Now()
	if _, err := s.Heads(ctx, []store.ID{{1}}); err != nil {
		return failed(err)
	}
	answered := time.Now()
	now, err := s.Check(ctx)
	if err != nil {
		return failed(err)
	}
	written := time.Now()
	table := p.table()
	fmt.Fprintf(table, "ledger\t%s\n", plain.Line(l.String()))
	fmt.Fprintf(table, "answers\tin %v\n", answered.Sub(begun).Round(time.Microsecond))
	fmt.Fprintf(table, "can be written\tin %v\n", written.Sub(answered).Round(time.Microsecond))
	fmt.Fprintf(table, "its clock\t%s, %v from the one here\n", now.UTC().Format(time.RFC3339), now.Sub(answered.Add(written.Sub(answered)/2)).Round(time.Millisecond))
	return failed(table.Flush())
}
