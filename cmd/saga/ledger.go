package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/records"
)

// openTime is how long a command waits for a ledger.
const openTime = 15 * time.Second

func (p *program) ledgerCommand() *cli.Command {
	flags := func(more ...cli.Flag) []cli.Flag {
		return append(append([]cli.Flag{ledgerFlag("this user's own")}, keysetFlags()...), more...)
	}
	return &cli.Command{
		Name:  "ledger",
		Usage: "list what a ledger has servers look after, and have it undone",
		Description: `Lists the sagas that have done something and wait: which tool, since when, until when they
are left alone, what they have done, how often undoing that has failed and why; and the tasks
that have not ended, or could not be undone. Needs the
keyset and the audience of the servers: with others it finds nothing.

Examples:
   saga ledger
   saga ledger --ledger sqlite:/var/lib/saga/ledger.db --keyset /etc/saga/keyset.json --audience prod
   saga ledger undo 5f3a1c0e`,
		Flags: flags(stringFlag("output", "text, or json", "text")),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.mustBeCommand(c, func(c *cli.Command) error { return p.withLedger(ctx, c, p.listLedger) })
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
				return p.withLedger(ctx, c, func(ctx context.Context, c *cli.Command, b *records.Book) error {
					return p.undoSaga(ctx, c, b, id)
				})
			},
		}, {
			Name:        "check",
			Usage:       "say whether a ledger answers and can be written, and what is in it for these keys",
			Description: "Writes a small record, which servers soon remove. Exits with 1 if the ledger does not answer, or\ncannot be written.",
			Flags:       flags(),
			Action: func(ctx context.Context, c *cli.Command) error {
				if err := p.noArguments(c); err != nil {
					return err
				}
				return p.withLedger(ctx, c, p.checkLedger)
			},
		}},
	}
}

// withLedger opens the ledger and the keyset that the flags name.
func (p *program) withLedger(ctx context.Context, c *cli.Command, do func(context.Context, *cli.Command, *records.Book) error) error {
	l := ledgerOf(c)
	switch path, isFile := strings.CutPrefix(l.name, ledgerSQLite); {
	case l.name == ledgerMemory:
		return p.usage(c, "a ledger in memory is within its server: nobody else can look into it")
	case l.name == ledgerOff:
		return p.usage(c, "name the ledger with --ledger: sqlite:PATH or postgres://USER@HOST/DATABASE")
	case isFile && path == "", !isFile && !isPostgres(l.name):
		return p.usage(c, "%v", errNoSuchLedger)
	case isFile:
		// It would be created.
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return failed(fmt.Errorf("there is no ledger: %w\nName that of the servers with --ledger; %s serve makes one for you", err, p.self))
		}
	}
	path, err := keysetPath(c)
	if err != nil {
		return failed(err)
	}
	keys, err := codec.LoadKeyset(path)
	if err != nil {
		return failed(nameServers(err))
	}
	opening, cancel := context.WithTimeout(ctx, openTime)
	store, err := l.open(opening, slog.New(slog.DiscardHandler), false)
	cancel()
	if err != nil {
		return failed(err)
	}
	defer closeStore(store)
	return do(ctx, c, records.New(store, func() *codec.Keyset { return keys }, c.String("audience"), 0))
}

// nameServers says what to do where there is no keyset, to who needs that of a server.
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
	State     records.State `json:"state"`
	Since     time.Time     `json:"since,omitzero"`
	Due       *time.Time    `json:"due,omitempty"`
	Effects   []string      `json:"effects"`
	Attempts  int           `json:"attempts"`
	LastError string        `json:"lastError,omitempty"`
}

func rowOf(w records.Waiting) waitingRow {
	row := waitingRow{
		Saga: w.Saga, Task: w.Task, Tool: w.Target.Name, Revision: w.Target.Revision, State: w.State, Since: w.Began,
		Effects: w.Effects, Attempts: w.Attempts, LastError: w.LastError,
	}
	if row.Effects == nil {
		row.Effects = []string{}
	}
	if !w.Due.IsZero() {
		row.Due = &w.Due
	}
	return row
}

func (p *program) listLedger(ctx context.Context, c *cli.Command, b *records.Book) error {
	var rows []waitingRow
	for w, err := range b.List(ctx) {
		if err != nil {
			return failed(err)
		}
		rows = append(rows, rowOf(w))
	}
	if len(rows) == 0 && c.String("output") != "json" {
		return p.sayNothingWaits(ctx, b)
	}
	return printRows(p, c, rows, "", "SAGA\tTOOL\tSTATE\tSINCE\tUNDONE AT\tHAS DONE\tATTEMPTS\tLAST ERROR", func(row waitingRow) string {
		if row.Task {
			row.Effects = []string{"(a task)"}
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", row.Saga, cell(row.Tool), row.State, ago(row.Since), due(row.Due),
			cell(strings.Join(row.Effects, ", ")), row.Attempts, plain.Short(row.LastError, 2*maxCell))
	})
}

// due says when somebody looks at a saga again, without its client.
func due(at *time.Time) string {
	switch {
	case at == nil:
		return "never"
	case time.Until(*at) <= 0:
		return "now"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// sayNothingWaits tells an empty list from one for other keys, as far as that can be known.
func (p *program) sayNothingWaits(ctx context.Context, b *records.Book) error {
	known, err := b.Targets(ctx)
	switch {
	case err != nil:
		return failed(err)
	case len(known) == 0:
		p.say("No server with this keyset and audience has used this ledger yet. If one should have, look at --keyset and --audience: with others, nothing can be found.")
	default:
		p.say("Nothing waits with something to be undone.")
	}
	return nil
}

func (p *program) undoSaga(ctx context.Context, c *cli.Command, b *records.Book, id string) error {
	var found []records.Waiting
	others := 0
	for w, err := range b.List(ctx) {
		if err != nil {
			return failed(err)
		}
		others++
		if strings.HasPrefix(w.Saga, strings.ToLower(id)) && id != "" {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 1:
	case 0:
		if others > 0 {
			return failed(fmt.Errorf("no saga %s waits with something to be undone: %s ledger lists the sagas that wait", plain.Short(id, maxCell), p.self))
		}
		if err := p.sayNothingWaits(ctx, b); err != nil {
			return err
		}
		return failed(fmt.Errorf("no saga %s waits with something to be undone", plain.Short(id, maxCell)))
	default:
		return p.usage(c, "%d sagas begin with %s: give more of the id", len(found), plain.Short(id, maxCell))
	}
	before := found[0]
	undo, what := b.UndoNow, fmt.Sprintf("%s of %s to be undone: %s", before.Saga, before.Target.Name, strings.Join(before.Effects, ", "))
	if before.Task {
		undo, what = b.UndoTask, fmt.Sprintf("the task %s of %s to be cancelled", before.Saga, before.Target.Name)
	}
	if err := undo(ctx, before.Key); err != nil {
		return failed(err)
	}
	p.say("saga: asked for %s", plain.Line(what))
	return p.awaitUndo(ctx, b, before, c.Duration("wait"))
}

// awaitUndo waits until a server has undone a saga, or failed to.
func (p *program) awaitUndo(ctx context.Context, b *records.Book, before records.Waiting, limit time.Duration) error {
	const every = 250 * time.Millisecond
	for end := time.Now().Add(limit); ; {
		w, err := b.Look(ctx, before)
		switch {
		case errors.Is(err, records.ErrNothingWaits):
			p.say("saga: it is undone")
			return nil
		case err != nil:
			return failed(err)
		case w.TooLate:
			return failed(records.ErrTooLate)
		case w.Attempts > before.Attempts:
			return failed(fmt.Errorf("it could not be undone: %s\nIt is tried again at %s", plain.Line(w.LastError), due(rowOf(w).Due)))
		case !time.Now().Before(end):
			return failed(fmt.Errorf("no server has undone it within %v: is one running that has the tool %q in revision %d? It does so when it is there", limit, w.Target.Name, w.Target.Revision))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

func (p *program) checkLedger(ctx context.Context, c *cli.Command, b *records.Book) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	now, err := b.Store().Now(ctx)
	took := time.Since(begun)
	if err != nil {
		return failed(err)
	}
	if err := b.Probe(ctx); err != nil {
		return failed(err)
	}
	known, err := b.Targets(ctx)
	if err != nil {
		return failed(err)
	}
	states := map[records.State]int{}
	sum, tasks := 0, 0
	for w, err := range b.List(ctx) {
		if err != nil {
			return failed(err)
		}
		if w.Task {
			tasks++
			continue
		}
		states[w.State]++
		sum++
	}
	table := p.table()
	fmt.Fprintf(table, "ledger\t%s\n", plain.Line(ledgerOf(c).String()))
	fmt.Fprintf(table, "answers\tin %v\n", took.Round(time.Microsecond))
	fmt.Fprintf(table, "its clock\t%s, %v from the one here\n", now.UTC().Format(time.RFC3339), now.Sub(begun.Add(took/2)).Round(time.Millisecond))
	fmt.Fprintf(table, "tools of servers with these keys\t%d\n", len(known))
	fmt.Fprintf(table, "sagas that wait with something to be undone\t%d\n", sum)
	if tasks > 0 {
		fmt.Fprintf(table, "tasks that have not ended, or could not be undone\t%d\n", tasks)
	}
	for _, state := range []records.State{records.Suspended, records.Running, records.Undoing, records.Failing, records.GivenUp, records.Unreadable} {
		if n := states[state]; n > 0 {
			fmt.Fprintf(table, "  %s\t%d\n", state, n)
		}
	}
	return failed(table.Flush())
}
