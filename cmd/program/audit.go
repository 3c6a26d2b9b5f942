package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/audit"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

func (p *program) auditKeyFlag() cli.Flag {
	return p.stringFlag("audit-key", "the `FILE` with a secret, the same for all servers, by which the audit has digests of arguments and answers", "")
}

// openAudit opens the audit that the flags name, if any. close is to be called at the end.
func (p *program) openAudit(c *cli.Command) (close func(), err error) {
	path, close := c.String("audit"), func() {}
	if path == "" {
		return close, nil
	}
	key, err := p.auditKey(c)
	if err != nil {
		return close, err
	}
	var w io.WriteCloser = p.stdout
	switch {
	case path == "-" && c.Name == "stdio":
		return close, p.usage(c, "--audit -: the standard output is for the client here; name a file")
	case path != "-":
		if w, err = openAuditFile(path, p.server.Logger); err != nil {
			return close, failed(fmt.Errorf("--audit: %w", err))
		}
	}
	log := audit.New(w, audit.Options{Key: key, Logger: p.server.Logger})
	p.server.Hooks = append(slices.Clip(p.server.Hooks), log.Hooks())
	return func() { // a file that is still being written to is left to the end of the process
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := log.Flush(ctx); err != nil {
			p.server.Logger.Error("the audit cannot be written", "error", err)
		} else if path != "-" {
			_ = w.Close()
		}
	}, nil
}

// auditFile writes to a file that programs like logrotate rename: the first line after a SIGHUP begins a new one.
type auditFile struct {
	file   *os.File
	hangup chan os.Signal
	log    *slog.Logger
}

func openAuditFile(path string, log *slog.Logger) (*auditFile, error) {
	file, err := appendTo(path)
	if err != nil {
		return nil, err
	}
	f := &auditFile{file, make(chan os.Signal, 1), log}
	signal.Notify(f.hangup, syscall.SIGHUP)
	return f, nil
}

// appendTo waits for nothing: to open a pipe could wait for its reader, and nothing would end that.
func appendTo(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		err = fmt.Errorf("%w: nothing reads the pipe", err)
	}
	return file, err
}

func (f *auditFile) Write(line []byte) (int, error) {
	select {
	case <-f.hangup:
		if again, err := appendTo(f.file.Name()); err != nil {
			f.log.Error("cannot open the audit again, writing to the file there was", "error", err)
		} else {
			_ = f.file.Close()
			f.file = again
		}
	default:
	}
	return f.file.Write(line)
}

func (f *auditFile) Close() error {
	signal.Stop(f.hangup)
	return f.file.Close()
}

// leastAuditKey is how many bytes a secret has at least.
const leastAuditKey = 16

func (p *program) auditKey(c *cli.Command) ([]byte, error) {
	path := c.String("audit-key")
	if path == "" {
		return nil, nil
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) < leastAuditKey {
		err = fmt.Errorf("%s has less than %d bytes: make it with head -c 32 /dev/urandom", path, leastAuditKey)
	}
	if err != nil {
		return nil, failed(fmt.Errorf("--audit-key: %w", err))
	}
	return key, nil
}

func (p *program) auditCommand() *cli.Command {
	return &cli.Command{
		Name:  "audit",
		Usage: "print who did what by which tool, as a ledger has it",
		Description: `Prints what has happened to the sagas of a ledger on all servers, saga by saga: a JSON object on
each line, as serve --audit writes them. Sagas that never needed the ledger, and those that it has
forgotten, are not in it: for these, keep what servers write.

Examples:
   {program} audit --since 24h --tool pay
   {program} audit --ledger postgres://{program}@db.example.com/{program} --keyset /etc/{program}/keyset.json --audience prod`,
		Flags: p.ledgerFlags(
			&cli.DurationFlag{Name: "since", Usage: "leave out what is older", Sources: p.sources("audit-since")},
			p.stringFlag("tool", "only sagas of the tool of this `NAME`", ""),
			p.stringFlag("subject", "only sagas that this `USER` has begun", ""),
			p.auditKeyFlag(),
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			key, err := p.auditKey(c)
			if err != nil {
				return err
			}
			return p.withLedger(ctx, c, func(o *durable.Operator) error { return p.printAudit(ctx, c, o, key) })
		},
	}
}

func (p *program) printAudit(ctx context.Context, c *cli.Command, o *durable.Operator, key []byte) error {
	var since time.Time
	if d := c.Duration("since"); d > 0 {
		since = time.Now().Add(-d)
	}
	sagas, missing := 0, 0
	for w, err := range o.All(ctx) {
		switch {
		case err != nil:
			return failed(err)
		case w.Updated.Before(since), c.String("tool") != "" && c.String("tool") != w.Tool:
			continue
		}
		sagas++
		err = p.printAuditOf(ctx, c, o, &w, since, key)
		if errors.Is(err, durable.ErrUnreadable) || errors.Is(err, turns.ErrNewer) {
			missing++
		} else if err != nil {
			return failed(err)
		}
	}
	switch {
	case missing > 0:
		return failed(fmt.Errorf("what was done in %d of %d sagas is missing, in part or as a whole: it was sealed with a key that is not enabled in --keyset, or a newer program wrote it", missing, sagas))
	case sagas == 0:
		p.remark("the ledger remembers no such saga of servers with this --audience")
	}
	return nil
}

// printAuditOf prints what has happened to a saga. It fails with [durable.ErrUnreadable] or [turns.ErrNewer] if that is not all.
func (p *program) printAuditOf(ctx context.Context, c *cli.Command, o *durable.Operator, w *durable.Waiting, since time.Time, key []byte) (missing error) {
	if w.State == durable.Unreadable {
		return durable.ErrUnreadable
	}
	caller, err := o.Caller(ctx, w.ID)
	if err != nil {
		return err
	}
	if s := c.String("subject"); s != "" && caller.Subject != s {
		return nil
	}
	r := audit.Record{Saga: w.Saga, Name: w.Tool}
	if caller.Subject != "" || caller.Issuer != "" || caller.Client != "" {
		r.Caller = &audit.Caller{Issuer: caller.Issuer, Subject: caller.Subject, Client: caller.Client}
	}
	for e, err := range o.History(ctx, w.ID) {
		if errors.Is(err, durable.ErrNothingWaits) {
			break // it was forgotten meanwhile
		}
		if err != nil {
			return err
		}
		if e.Kind == string(durable.Unreadable) {
			missing = durable.ErrUnreadable
		}
		if line, ok := auditOf(r, &e, key); ok && !e.At.Before(since) {
			if err := json.NewEncoder(p.stdout).Encode(line); err != nil {
				return err
			}
		}
	}
	return missing
}

// acts are what the entries of a history are in an audit; others tell of no act.
var acts = map[string]string{
	"begun": "begun", "turn": "turn", "question": "asked", "answer": "answered", "effect": "effects", "undoing": "undoing", "cancel": "cancelled", "undo": "undo asked",
	"end": "ended", "undone": "undone", "not undone": "not undone",
}

// auditOf completes the record of a saga for an entry of its history.
func auditOf(r audit.Record, e *durable.Entry, key []byte) (audit.Record, bool) {
	act, ok := acts[e.Kind]
	r.Time, r.N, r.Act, r.Effects = e.At.UTC(), e.N, act, e.Effects
	if e.Kind == "end" {
		if r.Outcome = e.Text; e.Text == "completed" { // as servers write it
			r.Outcome = "done"
		}
	}
	if e.Question != nil {
		r.Asked = []string{e.Question.ID}
	}
	for _, a := range e.Answers {
		r.Answers = append(r.Answers, audit.Answer{Question: a.StepID, By: a.By, Digest: audit.Digest(key, a.Result)})
	}
	return r, ok
}
