package durable

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

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
)

// operatorsPage is how many records are read at a time.
const operatorsPage = 200

// Waiting lists the sagas that wait with something to be undone, and the tasks that have not ended
// or whose undo has not, in the order in which they were begun.
func (c *Core) Waiting(ctx context.Context) iter.Seq2[Waiting, error] {
	return func(yield func(Waiting, error) bool) {
		filter := store.Filter{Audience: c.rows.audience, Statuses: []store.Status{store.Working, store.Waiting, store.Sleeping, store.Undoing, store.Outstanding}}
		for after := (store.Cursor{}); ; {
			list, err := insist(ctx, &c.rows.reads, func() ([]*store.Record, error) { return c.rows.store.List(ctx, filter, after, operatorsPage) })
			if err != nil {
				yield(Waiting{}, err)
				return
			}
			for _, record := range list {
				after = store.Cursor{Created: record.Created, ID: record.ID}
				if w, ok := c.waiting(record); ok && !yield(w, nil) {
					return
				}
			}
			if len(list) < operatorsPage {
				return
			}
		}
	}
}

// waiting shows a record to operators; ok is false if it is not for them.
func (c *Core) waiting(r *store.Record) (w Waiting, ok bool) {
	if r.Mode != store.ModeClient && r.Mode != store.ModeTask && r.Mode != store.ModeCall || r.Mode == store.ModeClient && r.Wake.IsZero() && r.Status != store.Outstanding && r.Status != store.Undoing {
		return w, false // there is nothing to undo
	}
	w = Waiting{ID: r.ID, Task: r.Mode != store.ModeClient, Tool: r.Tool, Revision: r.Revision, Began: r.Created, Due: r.Wake}
	var s summary
	if err := c.rows.open(r.ID, placeSummary, 0, r.Summary, &s); err != nil {
		w.State, w.LastError = Unreadable, err.Error()
		return w, true
	}
	w.Saga, w.Effects, w.Failures, w.LastError = s.Saga.String(), s.Effects, s.Failures, s.LastError
	switch held := r.Until.After(r.Now); {
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
	return w, true
}

// ErrNothingWaits: the saga has ended, or never was.
var ErrNothingWaits = errors.New("no such saga waits with something to be undone")

// Look returns how it is with a saga that [Core.Waiting] has listed. It fails with
// [ErrNothingWaits] if it waits for nothing any more.
func (c *Core) Look(ctx context.Context, id store.ID) (Waiting, error) {
	record, err := insist(ctx, &c.rows.reads, func() (*store.Record, error) { return c.rows.store.Load(ctx, id) })
	if errors.Is(err, store.ErrNotFound) {
		return Waiting{}, ErrNothingWaits
	}
	if err != nil {
		return Waiting{}, err
	}
	if w, ok := c.waiting(record); ok && record.Status != store.Ended {
		return w, nil
	}
	return Waiting{}, ErrNothingWaits
}

// Entry is an entry of a saga's history.
type Entry struct {
	N    uint64
	At   time.Time
	Kind string
	// Effects are names, Text is for people. What clients and tools have said is not in it.
	Effects []string
	Text    string
}

// History returns what has happened to a saga, in order. Entries of progress may be gone.
func (c *Core) History(ctx context.Context, id store.ID) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for after := uint64(0); ; {
			events, _, err := c.rows.log(ctx, id, after, operatorsPage)
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
func (c *Core) Ping(ctx context.Context) error {
	_, err := c.rows.store.Load(ctx, store.ID{1})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Check is [Core.Ping] for what is written.
func (c *Core) Check(ctx context.Context) error {
	if _, err := c.rows.store.Check(ctx); err != nil {
		return fmt.Errorf("nothing can be written: %w", err)
	}
	return nil
}

// WriteFailures counts the writes that the store has failed to make.
func (c *Core) WriteFailures() uint64 {
	p := &c.rows.writes
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
