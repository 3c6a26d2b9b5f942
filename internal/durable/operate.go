package durable

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/store"
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
	ID store.ID
	// Task: servers drive it; otherwise its client does.
	Task bool
	// Tool and Revision say what it is a saga of, Saga is its id in hexadecimal.
	Tool     string
	Revision uint32
	Saga     string
	State    State
	// Began is when it was first recorded, and Due when it will be undone unless its client
	// comes back, or tried again; zero if it will not.
	Began, Due time.Time
	// Effects are what it has begun, by name, if that is known. If it is [Running] there may be more.
	Effects []string
	// Failures counts the undos that have failed, and LastError is the last one's error.
	Failures  int
	LastError string
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
	// Queued: a task, for a worker.
	Queued State = "queued"
	// Sleeping: a task, for a time.
	Sleeping State = "sleeping"
	// Unreadable: for a server that can read it. Nothing else is known of it but what is in the
	// clear.
	Unreadable State = "unreadable"
	// Over: for nothing. Only [Operator.All] lists such.
	Over State = "over"
)

// operatorsPage is how many records are read at a time.
const operatorsPage = 200

// Waiting lists the sagas that wait with something to be undone, and the tasks that have not ended
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
		filter := store.Filter{Audience: o.rows.audience, Statuses: statuses}
		for after := (store.Cursor{}); ; {
			list, err := insist(ctx, &o.rows.reads, func() ([]*store.Record, error) { return o.rows.store.List(ctx, filter, after, operatorsPage) })
			if err != nil {
				yield(Waiting{}, err)
				return
			}
			for _, record := range list {
				after = store.Cursor{Created: record.Created, ID: record.ID}
				if listed(record) && !yield(o.waiting(record), nil) {
					return
				}
			}
			if len(list) < operatorsPage {
				return
			}
		}
	}
}

func isSaga(r *store.Record) bool {
	return (r.Mode == store.ModeClient || r.Mode == store.ModeTask || r.Mode == store.ModeCall) && r.Tool != blobTool
}

// concerns reports whether something of a saga waits for servers, or for operators.
func concerns(r *store.Record) bool {
	idle := r.Mode == store.ModeClient && r.Wake.IsZero() && r.Status != store.Undoing // nothing is to be undone
	return isSaga(r) && r.Status != store.Ended && (!idle || r.Status == store.Outstanding)
}

// waiting shows a record to operators.
func (o *Operator) waiting(r *store.Record) Waiting {
	w := Waiting{ID: r.ID, Task: r.Mode != store.ModeClient, Tool: r.Tool, Revision: r.Revision, Began: r.Created, Due: r.Wake}
	var s summary
	if err := o.rows.open(r.ID, placeSummary, 0, r.Summary, &s); err != nil {
		w.State, w.LastError = Unreadable, err.Error()
		return w
	}
	w.Saga, w.Effects, w.Failures, w.LastError = s.Saga.String(), s.Effects, s.Failures, s.LastError
	switch held := r.Until.After(r.Now); {
	case r.Status == store.Ended:
		w.State = Over
	case r.Wake.IsZero():
		w.State = GivenUp
	case r.Status == store.Outstanding, s.Failures > 0:
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

// Look returns how it is with a saga that [Operator.Waiting] has listed. It fails with
// [ErrNothingWaits] if it waits for nothing any more, and with [ErrTooLate] if it is a task that is not
// undone any more.
func (o *Operator) Look(ctx context.Context, id store.ID) (Waiting, error) {
	record, err := insist(ctx, &o.rows.reads, func() (*store.Record, error) { return o.rows.store.Load(ctx, id) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Waiting{}, ErrNothingWaits
	case err != nil:
		return Waiting{}, err
	}
	if r, err := o.rows.openRow(record); err == nil && (r.Final && !r.Status.Over() || r.Status == store.Ended && r.Shown.Ending == completed) {
		return Waiting{}, ErrTooLate
	}
	if !concerns(record) {
		return Waiting{}, ErrNothingWaits
	}
	return o.waiting(record), nil
}

// Entry is an entry of a saga's history.
type Entry struct {
	N    uint64
	At   time.Time
	Kind string
	// Effects are names, Text is for people. What clients and tools have said is not in it, but for errors.
	Effects []string
	Text    string
}

// History returns what has happened to a saga, in order. Entries of progress may be gone.
func (o *Operator) History(ctx context.Context, id store.ID) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for after := uint64(0); ; {
			events, _, err := o.rows.log(ctx, id, after, operatorsPage)
			if errors.Is(err, store.ErrNotFound) {
				err = ErrNothingWaits
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for i := range events {
				e := &events[i]
				after = e.n
				if e.kind == kindEnd {
					e.Text = e.Ending.String() // not the tool's words
				}
				if !yield(Entry{e.n, e.at, string(e.kind), e.Effects, e.Text}, nil) {
					return
				}
			}
			if len(events) < operatorsPage {
				return
			}
		}
	}
}

// Ping finds out whether the store can be read, and Check whether it can be written.
func (o *Operator) Ping(ctx context.Context) error {
	_, err := o.rows.store.Load(ctx, store.ID{1})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Check is [Operator.Ping] for what is written.
func (o *Operator) Check(ctx context.Context) error {
	if _, err := o.rows.store.Check(ctx); err != nil {
		return fmt.Errorf("nothing can be written: %w", err)
	}
	return nil
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
	for slices.ContainsFunc(c.worker.all(), cancelled) && sleep(ctx, settledPause) == nil {
	}
}

// settledPause is how often it is looked whether they have.
const settledPause = 5 * time.Millisecond
