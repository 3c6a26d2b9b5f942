package durable

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Operator looks at the sagas of an audience, and has them undone, without the tools that they are of. A
// [Core] is one as well. It is safe for concurrent use.
type Operator struct{ rows rows }

// NewOperator returns an operator who has the keys of the servers whose store it is.
func NewOperator(s store.Store, keys func() *codec.Keyset, audience string) *Operator {
	o := new(Operator)
	o.rows.store, o.rows.keys, o.rows.audience = s, keys, audience
	return o
}

// Waiting is a saga that a server will look at again, as operators see it.
type Waiting struct {
	// ID names its record.
	ID store.ID `json:"-"`
	// Saga is its id in hexadecimal, or its record's if that is [Unreadable].
	Saga string `json:"saga"`
	// Task: servers drive it. Call: so they do, as long as its session has it open. Otherwise its client does.
	Task bool `json:"task,omitempty"`
	Call bool `json:"call,omitempty"`
	// Tool and Revision say what it is a saga of.
	Tool     string `json:"tool"`
	Revision uint32 `json:"revision"`
	State    State  `json:"state"`
	// Began is when it was first recorded, and Due when it will be undone unless its client
	// comes back, or tried again; zero if it will not.
	Began time.Time `json:"since,omitzero"`
	Due   time.Time `json:"due,omitzero"`
	// Effects are what it has begun, by name and how often, if that is known. If it is [Running] there may be more.
	Effects []string `json:"effects"`
	// Updated is when it was last written.
	Updated time.Time `json:"-"`
	// Failures counts the undos that have failed, and LastError is the last one's error.
	Failures  int    `json:"attempts"`
	LastError string `json:"lastError,omitempty"`
}

// State says what a saga waits for.
type State string

// What sagas wait for.
const (
	// Suspended: for its client.
	Suspended State = "suspended"
	// Running: for the end of a turn, or for a process to take it over whose holder died.
	Running State = "running"
	// Undoing: for the end of an undo.
	Undoing State = "undoing"
	// Failing: for the next attempt to undo what could not be undone.
	Failing State = "failing"
	// GivenUp: for an operator.
	GivenUp State = "given-up"
	// Queued: a task, or a call, for a worker.
	Queued State = "queued"
	// Sleeping: a task, or a call, for a time.
	Sleeping State = "sleeping"
	// Unreadable: for a server that can read it. Nothing else is known of it but what is in the clear.
	Unreadable State = "unreadable"
	// Over: for nothing. Only [Operator.All] lists such.
	Over State = "over"
)

// Waiting lists the sagas that wait with something to be undone, and the tasks and calls that have not ended
// or whose undo has not, in the order in which they were begun.
func (o *Operator) Waiting(ctx context.Context) iter.Seq2[Waiting, error] {
	return o.list(ctx, concerns, store.Working, store.Waiting, store.Sleeping, store.Undoing, store.Outstanding)
}

// All lists all sagas that the store still has.
func (o *Operator) All(ctx context.Context) iter.Seq2[Waiting, error] {
	return o.list(ctx, isSaga, store.Working, store.Waiting, store.Sleeping, store.Undoing, store.Outstanding, store.Ended)
}

func (o *Operator) list(ctx context.Context, listed func(*store.Record) bool, statuses ...store.Status) iter.Seq2[Waiting, error] {
	return func(yield func(Waiting, error) bool) {
		for record, err := range o.rows.list(ctx, store.Filter{Audience: o.rows.audience, Statuses: statuses}, store.Cursor{}, pageSize) {
			if err != nil {
				yield(Waiting{}, err)
				return
			}
			if listed(record) && !yield(o.waiting(record), nil) {
				return
			}
		}
	}
}

func isSaga(r *store.Record) bool {
	return r.Mode == store.ModeClient || r.Mode == store.ModeTask || r.Mode == store.ModeCall
}

// concerns reports whether something of a saga waits for servers, or for operators.
func concerns(r *store.Record) bool {
	idle := r.Mode == store.ModeClient && r.Wake.IsZero() && r.Status != store.Undoing // nothing is to be undone
	return isSaga(r) && r.Status != store.Ended && (!idle || r.Status == store.Outstanding)
}

func (o *Operator) waiting(r *store.Record) Waiting {
	w := Waiting{ID: r.ID, Saga: r.ID.String(), Effects: []string{}, Tool: r.Tool, Revision: r.Revision, Began: r.Created, Updated: r.Updated, Due: r.Wake}
	w.Task, w.Call = r.Mode == store.ModeTask, r.Mode == store.ModeCall
	var s summary
	if err := o.rows.open(r.ID, placeSummary, 0, r.Summary, &s); err != nil {
		w.State, w.LastError = Unreadable, err.Error()
		return w
	}
	w.Saga, w.Effects, w.Failures, w.LastError = s.Saga.String(), append(w.Effects, s.Effects...), s.Running.Failures, s.Running.LastError
	if lost := s.Running.Tries + r.Tries - 1; lost > 0 && w.LastError == "" {
		w.LastError = fmt.Sprintf("%d servers in a row went down with it, or lost it", lost)
	}
	switch held := r.Until.After(r.Now); {
	case r.Status == store.Ended:
		w.State = Over
	case r.Wake.IsZero():
		w.State = GivenUp
	case r.Status == store.Outstanding, s.Running.Failures > 0:
		w.State = Failing
	case r.Status == store.Undoing, s.Cancelled:
		w.State = Undoing
	case held, r.Mode == store.ModeClient && r.Status == store.Working:
		w.State = Running
	case r.Status == store.Waiting:
		w.State = Suspended
	case r.Status == store.Sleeping:
		w.State = Sleeping
	default:
		w.State = Queued
	}
	return w
}

// ErrNothingWaits: the saga has ended, or never was.
var ErrNothingWaits = errors.New("no such saga waits with something to be undone")

// Look returns how it is with a saga that [Operator.Waiting] has listed. It fails with [ErrNothingWaits] if it waits
// for nothing any more, with [ErrTooLate] if it is a task that is not undone any more, with [ErrInPart] if it was
// undone as far as it can be, with another error if it did something without an Undo, and with [ErrClosed].
func (o *Operator) Look(ctx context.Context, id store.ID) (Waiting, error) {
	record, err := insist(ctx, &o.rows.reads, func() (*store.Record, error) { return o.rows.store.Load(ctx, id) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Waiting{}, ErrNothingWaits
	case err != nil:
		return Waiting{}, err
	}
	var ended error
	if record.Status == store.Ended {
		ended = o.ended(ctx, id)
	}
	if r, err := o.rows.openRow(record); err == nil && !errors.Is(ended, ErrClosed) {
		switch {
		case r.Final && !r.Status.Over(), r.Status == store.Ended && r.Shown.Ending == completed:
			return Waiting{}, ErrTooLate
		case r.Final && r.Status == store.Ended:
			return Waiting{}, ErrInPart
		}
	}
	switch {
	case ended != nil:
		return Waiting{}, ended
	case !concerns(record):
		return Waiting{}, ErrNothingWaits
	}
	return o.waiting(record), nil
}

// ErrInPart: the saga has ended, and what it did is undone up to what is final.
var ErrInPart = errors.New("it is undone in part: some of what it did is final, and stays with what came before it")

// ErrTooLate: the saga has ended well, or only goes forward, as what it did is final.
var ErrTooLate = errors.New("it is too late to undo it: it has ended well, or what it did is final")

// UndoNow has a server undo a saga that [Operator.Waiting] has listed: a task is cancelled, one that its client
// drives ends although that could still come back, and what could not be undone before is tried again. A turn
// that is under way ends first. It fails with [ErrNothingWaits] or [ErrTooLate].
func (o *Operator) UndoNow(ctx context.Context, id store.ID) error {
	for {
		r, err := o.rows.load(ctx, id)
		switch {
		case err != nil:
			return err
		case r == nil, r.Status == store.Ended, r.Client != nil && r.Wake.IsZero() && r.Status == store.Waiting:
			return ErrNothingWaits
		case r.Status == store.Outstanding && r.Until.After(r.now()):
			return nil // it is being tried again
		case r.Status == store.Outstanding: // which takes no signals
			// Who has held it last may have begun, and not have written what it did.
			r.Running.Doubt = r.Running.Doubt || r.Running.Held || r.Record.Tries > 0
			r.Running.Tries, r.Running.Held = r.Running.Tries+r.Record.Tries, false
			r.Wake = dueAt(r.now())
			r.Keep = keepUntil(r)
			err = o.rows.write(ctx, r, 0, event{kind: kindUndo})
		case r.Final:
			return ErrTooLate
		default:
			err = o.rows.signal(ctx, r, event{kind: kindUndo})
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
}

// Entry is an entry of a saga's history.
type Entry struct {
	N    uint64    `json:"n"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	// Effects are names, Text is for people. What clients and tools have said is not in it, but for errors.
	Effects []string `json:"effects,omitempty"`
	Text    string   `json:"text,omitempty"`
	// Answers are what was answered, and Question is what was asked.
	Answers  []steps.Answer `json:"-"`
	Question *steps.Step    `json:"-"`
}

// History returns what has happened to a saga, in order. Entries of progress may be gone.
func (o *Operator) History(ctx context.Context, id store.ID) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range o.rows.events(ctx, id, 0) {
			if errors.Is(err, store.ErrNotFound) {
				err = ErrNothingWaits
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			what := string(e.kind)
			switch {
			case e.kind == kindEnd && e.Ending == cancelled && len(e.Effects) > 0:
				e.Text = "not undone"
			case e.kind == kindEnd && e.Ending == completed && e.Bad:
				e.Text = failed.String()
			case e.kind == kindEnd:
				e.Text = e.Ending.String() // not the tool's words
			case e.kind == kindAnswer:
				e.Text = givenBy(e.Answers)
			case e.kind == kindUndone && len(e.Effects) > 0:
				what = "not undone"
			}
			if !yield(Entry{e.n, e.at, what, e.Effects, e.Text, e.Answers, e.Question}, nil) {
				return
			}
		}
	}
}

// Caller returns who has begun a saga: a zero Caller is an anonymous one, or that of a saga that is gone.
func (o *Operator) Caller(ctx context.Context, id store.ID) (engine.Caller, error) {
	r, err := o.rows.load(ctx, id)
	if err != nil || r == nil {
		return engine.Caller{}, err
	}
	return engine.CallerOfBinding(r.Principal), nil
}

// givenBy says who has given answers, if that was not the client.
func givenBy(answers []steps.Answer) string {
	var by []string
	for _, a := range answers {
		if a.By != "" && !slices.Contains(by, a.By) {
			by = append(by, a.By)
		}
	}
	if len(by) == 0 {
		return ""
	}
	return "by " + strings.Join(by, ", ")
}

// Ping finds out whether the store can be read, and Check whether it can be written.
func (o *Operator) Ping(ctx context.Context) error {
	_, err := o.rows.store.Load(ctx, store.ID{1})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Check is [Operator.Ping] for what is written. It returns the store's time.
func (o *Operator) Check(ctx context.Context) (now time.Time, err error) {
	if now, err = o.rows.store.Check(ctx); err != nil {
		err = fmt.Errorf("nothing can be written: %w", err)
	}
	return now, err
}

// WriteFailures counts the writes that the store has failed to make.
func (o *Operator) WriteFailures() uint64 {
	p := &o.rows.writes
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures
}

// Settle waits until the calls that were cancelled and are driven here have ended, or until ctx ends: a
// process that has answered its client undoes what that call did before it ends.
func (c *Core) Settle(ctx context.Context) {
	cancelled := func(h *hold) bool {
		select {
		case h.mutex <- struct{}{}:
			defer h.unlock()
			return h.row != nil && h.row.Mode == store.ModeCall && h.row.Cancelled && !h.row.Status.Over()
		default:
			return true // it is being written
		}
	}
	for slices.ContainsFunc(c.worker.all(), cancelled) && sleep(ctx, 5*time.Millisecond) == nil {
	}
}
