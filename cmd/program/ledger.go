package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// openTime is how long a command waits for a ledger.
const openTime = 15 * time.Second

func (p *program) ledgerCommand() *cli.Command {
	aboutSaga := func(do func(context.Context, *cli.Command, *durable.Operator, string) error) cli.ActionFunc {
		return func(ctx context.Context, c *cli.Command) error {
			id, err := p.oneArgument(c, "id of the saga")
			if err != nil {
				return err
			}
			return p.withLedger(ctx, c, func(o *durable.Operator) error { return do(ctx, c, o, id) })
		}
	}
	return &cli.Command{
		Name:  "ledger",
		Usage: "list what a ledger has servers look after, show what happened, and have it undone",
		Description: `Lists the sagas that have done something and wait: which tool, since when, until when they
are left alone, what they have done, how often undoing that has failed and why; and the tasks and
the calls of sessions that have not ended, or could not be undone. The oldest come first. Needs
the keyset and the audience of the servers: with others it finds nothing.

Examples:
   {program} ledger
   {program} ledger show 5f3a1c0e
   {program} ledger --ledger sqlite:/var/lib/{program}/ledger.db --keyset /etc/{program}/keyset.json --audience prod
   {program} ledger undo 5f3a1c0e`,
		Flags: p.ledgerFlags(p.outputFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.withLedger(ctx, c, func(o *durable.Operator) error { return p.listLedger(ctx, c, o) })
		},
		Commands: []*cli.Command{{
			Name:      "undo",
			Usage:     "have what a saga did undone now",
			ArgsUsage: "SAGA (its id, or the beginning of it)",
			Description: `Has a server that has the tool undo what the saga did, and waits for that, whether or not its
client could still come back. A turn that is under way ends first; a task or a call is cancelled.
What could not be undone is tried once more, also if it was given up.

Exits with 1 if it is not undone, if it was closed meanwhile, or if it did something without
an Undo, which stays.`,
			Flags:  p.ledgerFlags(&cli.DurationFlag{Name: "wait", Usage: "how long to wait for a server to do it", Value: time.Minute, Sources: p.sources("ledger-wait")}),
			Action: aboutSaga(p.undoSaga),
		}, {
			Name:      "close",
			Usage:     "end a saga as it is: what it did stays",
			ArgsUsage: "SAGA (its id, or the beginning of it)",
			Description: `Ends a saga whose effects you have seen to yourself, or that ended well before the ledger was
restored from a backup: servers undo nothing of it, and its client cannot go on with it.`,
			Flags:  p.ledgerFlags(&cli.BoolFlag{Name: "yes", Usage: "confirm that what it did shall stay"}),
			Action: aboutSaga(p.closeSaga),
		}, {
			Name:      "show",
			Usage:     "show what has happened to a saga",
			ArgsUsage: "SAGA (its id, or the beginning of it)",
			Description: `Shows the history of a saga, also of one that has ended and is still remembered: what happened
when, and to which effects. What clients and tools have said is not shown, but for errors.`,
			Flags:  p.ledgerFlags(p.outputFlag()),
			Action: aboutSaga(p.showSaga),
		}, {
			Name:        "check",
			Usage:       "say whether a ledger answers and can be written",
			Description: "Leaves nothing in the ledger. Exits with 1 if it does not answer, or cannot be written.",
			Flags:       p.ledgerFlags(),
			Action:      p.checkLedger,
		}},
	}
}

// ledgerFlags are the flags of a command that looks into a ledger, before those of its own.
func (p *program) ledgerFlags(own ...cli.Flag) []cli.Flag {
	return slices.Concat([]cli.Flag{p.ledgerFlag("this user's own")}, p.keysetFlags(), own)
}

// namedLedger returns the ledger that the flags name, if a command can look into it.
func (p *program) namedLedger(c *cli.Command) (string, error) {
	name, _ := p.ledgerOf(c)
	switch path, isFile := strings.CutPrefix(name, ledgerSQLite); {
	case name == ledgerMemory:
		return "", p.usage(c, "a ledger in memory is within its server: no other process can look into it, and a worker finds nothing to do")
	case name == ledgerOff:
		return "", p.usage(c, "name the ledger with --ledger: sqlite:PATH or postgres://USER@HOST/DATABASE")
	case isFile && path == "", !isFile && !isPostgres(name):
		return "", p.usage(c, "%v", errNoSuchLedger)
	case isFile:
		// It would be created.
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return "", failed(fmt.Errorf("there is no ledger: %w\nName that of the servers with --ledger; %s serve makes one for you", err, p.self))
		}
	}
	return name, nil
}

// withLedger looks into the ledger that the flags name.
func (p *program) withLedger(ctx context.Context, c *cli.Command, do func(*durable.Operator) error) error {
	return p.withStore(ctx, c, func(s store.Store, keys *codec.Keyset) error {
		return do(durable.NewOperator(s, func() *codec.Keyset { return keys }, c.String("audience")))
	})
}

// withStore opens the ledger and the keyset that the flags name.
func (p *program) withStore(ctx context.Context, c *cli.Command, do func(store.Store, *codec.Keyset) error) error {
	name, err := p.namedLedger(c)
	if err != nil {
		return err
	}
	keys, err := p.namedKeys(ctx, c)
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	s, err := openStore(opening, name)
	if err != nil {
		return failed(err)
	}
	defer s.Close()
	return do(s, keys)
}

func (p *program) listLedger(ctx context.Context, c *cli.Command, o *durable.Operator) error {
	var rows []durable.Waiting
	for w, err := range o.Waiting(ctx) {
		if err != nil {
			return failed(err)
		}
		rows = append(rows, w)
	}
	const nothing = "Nothing waits with something to be undone, of servers with this keyset and audience. If something should, look at --keyset and --audience: with others, nothing can be found. A server logs its audience when it starts."
	return printRows(p, c, rows, nothing, "SAGA\tTOOL\tSTATE\tSINCE\tDUE\tHAS DONE\tATTEMPTS\tLAST ERROR", func(w durable.Waiting) string {
		effects := strings.Join(w.Effects, ", ")
		if what, ok := driven(&w); ok {
			effects = "(a " + what + ")"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", w.Saga, cell(w.Tool), w.State, ago(w.Began), due(w.Due),
			cell(effects), w.Failures, plain.Short(w.LastError, maxReason))
	})
}

// driven says what a saga is that servers drive, which are not shown with what they have done.
func driven(w *durable.Waiting) (what string, ok bool) {
	return map[bool]string{true: "task", false: "call"}[w.Task], w.Task || w.Call
}

// maxReason limits what a table shows of the reason of a failure, in characters.
const maxReason = 200

// due says when a server looks at a saga again, without its client.
func due(at time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case time.Until(at) <= 0:
		return "now"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// findSaga returns the one saga of a list whose id begins so, or nil.
func (p *program) findSaga(c *cli.Command, list iter.Seq2[durable.Waiting, error], id string) (found *durable.Waiting, err error) {
	const whole = 32
	n := 0
	for w, err := range list {
		switch {
		case err != nil:
			return nil, failed(err)
		case !strings.HasPrefix(w.Saga, strings.ToLower(id)):
			continue
		case len(id) == whole:
			return &w, nil
		}
		found = &w
		n++
	}
	if n > 1 {
		return nil, p.usage(c, "%d sagas begin with %s: give more of the id", n, plain.Short(id, maxCell))
	}
	return found, nil
}

func (p *program) showSaga(ctx context.Context, c *cli.Command, o *durable.Operator, id string) error {
	found, err := p.findSaga(c, o.All(ctx), id)
	if err != nil {
		return err
	}
	if found == nil {
		return failed(fmt.Errorf("the ledger has no saga %s of servers with this keyset and audience, or has forgotten it", plain.Short(id, maxCell)))
	}
	if found.State == durable.Unreadable {
		return failed(errors.New(found.LastError))
	}
	var rows []durable.Entry
	for e, err := range o.History(ctx, found.ID) {
		if err != nil {
			return failed(err)
		}
		rows = append(rows, e)
	}
	return printRows(p, c, rows, "", "N\tAT\tWHAT\tEFFECTS\t", func(row durable.Entry) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", row.N, row.At.Local().Format("2006-01-02 15:04:05.000"), row.Kind,
			cell(strings.Join(row.Effects, ", ")), plain.Short(row.Text, maxReason))
	})
}

// waitingSaga is findSaga for one that is listed.
func (p *program) waitingSaga(ctx context.Context, c *cli.Command, o *durable.Operator, id string) (*durable.Waiting, error) {
	found, err := p.findSaga(c, o.Waiting(ctx), id)
	if err == nil && found == nil {
		err = failed(fmt.Errorf("no saga %s waits with something to be undone: %s ledger lists the sagas that wait\nIf it should, look at --keyset and --audience: with others, it cannot be found", plain.Short(id, maxCell), p.self))
	}
	return found, err
}

func (p *program) closeSaga(ctx context.Context, c *cli.Command, o *durable.Operator, id string) error {
	found, err := p.waitingSaga(ctx, c, o, id)
	if err != nil {
		return err
	}
	if !c.Bool("yes") {
		return p.usage(c, "what a closed saga did stays, and is yours to see to; confirm with --yes")
	}
	stays, err := o.CloseNow(ctx, found.ID)
	if err != nil {
		return failed(err)
	}
	p.remark("closed %s of %s: what it did stays: %s", found.Saga, plain.Line(found.Tool), plain.Line(cmp.Or(strings.Join(stays, ", "), "nothing that the ledger knows of")))
	return nil
}

func (p *program) undoSaga(ctx context.Context, c *cli.Command, o *durable.Operator, id string) error {
	before, err := p.waitingSaga(ctx, c, o, id)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s of %s to be undone: %s", before.Saga, before.Tool, strings.Join(before.Effects, ", "))
	if kind, ok := driven(before); ok {
		what = fmt.Sprintf("the %s %s of %s to be cancelled", kind, before.Saga, before.Tool)
	}
	if err := o.UndoNow(ctx, before.ID); err != nil {
		return failed(err)
	}
	p.remark("asked for %s", plain.Line(what))
	return p.awaitUndo(ctx, o, before, c.Duration("wait"))
}

// awaitUndo waits until a server has undone a saga, or failed to.
func (p *program) awaitUndo(ctx context.Context, o *durable.Operator, before *durable.Waiting, limit time.Duration) error {
	const every = 250 * time.Millisecond
	for end := time.Now().Add(limit); ; {
		w, err := o.Look(ctx, before.ID)
		switch {
		case errors.Is(err, durable.ErrNothingWaits):
			p.remark("it is undone")
			return nil
		case err != nil:
			return failed(err)
		case w.Failures > before.Failures:
			next := "It is tried again: " + due(w.Due)
			if w.Due.IsZero() {
				next = "It is given up: it is tried again only when you ask for it"
			}
			return failed(fmt.Errorf("it could not be undone: %s\n%s", plain.Line(w.LastError), next))
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
	name, err := p.namedLedger(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	s, err := openStore(ctx, name)
	if err != nil {
		return failed(err)
	}
	defer s.Close()
	if _, err := s.Load(ctx, store.ID{1}); err != nil && !errors.Is(err, store.ErrNotFound) {
		return failed(err)
	}
	now, err := s.Check(ctx)
	if err != nil {
		return failed(err)
	}
	return p.table("", []string{
		"ledger\t" + plain.Line(shownLedger(name)), "answers\tyes", "can be written\tyes",
		fmt.Sprintf("its clock\t%s, %v from the one here", now.UTC().Format(time.RFC3339), time.Until(now).Round(time.Millisecond)),
	})
}
