package records

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Waiting is a saga that a server will look at again, as operators see it.
type Waiting struct {
	// Key is for [Book.UndoNow], or [Book.UndoTask].
	Key string
	// Task: it is a saga that the servers drive. Its Effects are not known here. TooLate: it cannot
	// be cancelled, as what it did is final.
	Task, TooLate bool
	// Target is what it is a saga of, and Saga its id in hexadecimal.
	Target Target
	Saga   string
	// State is one of those below.
	State State
	// Began is when it was first recorded, and Due when it will be undone unless its client
	// comes back, or tried again; zero if it will not.
	Began, Due time.Time
	// Effects are what it has begun, by name. If it is [Running] there may be more.
	Effects []string
	// Attempts counts the undos that have failed, and LastError is the last one's error.
	Attempts  int
	LastError string
}

// State says what a saga waits for.
type State string

// What sagas wait for.
const (
	// Suspended: for its client.
	Suspended State = "suspended"
	// Running: for the end of a turn, or for somebody to take it over whose worker died.
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
	// Unreadable: for somebody who can read it. Nothing else is known of it but its target.
	Unreadable State = "unreadable"
)

// List returns the sagas that wait with something to be undone, and the tasks that have not ended
// or whose undo has not, of all tools that servers of this audience and keyset have had.
func (b *Book) List(ctx context.Context) iter.Seq2[Waiting, error] {
	return func(yield func(Waiting, error) bool) {
		targets, err := b.Targets(ctx)
		if err != nil {
			yield(Waiting{}, err)
			return
		}
		var queues []string
		of, tasks := make(map[string]Target), make(map[string]bool)
		for _, t := range targets {
			for kind, names := range []func(Target) ([]string, error){b.queues, b.taskQueues} {
				list, err := names(t)
				if err != nil {
					yield(Waiting{}, err)
					return
				}
				queues = append(queues, list...)
				for _, queue := range list {
					of[queue], tasks[queue] = t, kind == 1
				}
			}
		}
		const page = 200
		for after := ""; len(queues) > 0; {
			list, err := b.store.List(ctx, queues, after, page)
			if err != nil {
				yield(Waiting{}, unavailable(ctx, err))
				return
			}
			for _, r := range list {
				w, err := b.look(r, tasks[r.Queue])
				if err != nil {
					why := strings.TrimPrefix(err.Error(), ErrUnreadable.Error()+": ") // the state says that already
					w = Waiting{Key: r.Key, Task: tasks[r.Queue], Target: of[r.Queue], State: Unreadable, Due: r.Wake, LastError: why}
				}
				if !yield(w, nil) {
					return
				}
			}
			if len(list) < page {
				return
			}
			after = list[len(list)-1].Key
		}
	}
}

// waiting shows an entry to operators.
func (e *Entry) waiting() Waiting {
	w := Waiting{
		Key: e.key, Target: e.Target, Saga: e.String(), State: Suspended, Began: e.Began, Due: e.Wake,
		Effects: e.Effects, Attempts: e.Attempts, LastError: e.LastError,
	}
	switch {
	case e.GivenUp:
		w.State, w.Due = GivenUp, time.Time{}
	case e.Attempts > 0:
		w.State = Failing
	case e.Claim != nil && e.Claim.How == HowTurn:
		w.State = Running
	case e.Claim != nil || e.Ended:
		w.State = Undoing
	}
	return w
}

// ErrNothingWaits: the saga has ended, or never was.
var ErrNothingWaits = errors.New("no such saga waits with something to be undone")

// ErrTooLate: what the task did is final, so it only goes forward.
var ErrTooLate = errors.New("it is too late to undo it: what it did is final")

// UndoNow has the next worker of a server with that tool undo the saga, whether or not its
// client could still come back. If a turn is under way, that ends first. It fails
// with [ErrNothingWaits] if there is nothing to undo any more.
func (b *Book) UndoNow(ctx context.Context, key string) error { return b.undoNow(ctx, key, false) }

// UndoTask has the next worker cancel a task, or try again to undo what could not be undone. It
// fails with [ErrTooLate], and as [Book.UndoNow] does.
func (b *Book) UndoTask(ctx context.Context, key string) error { return b.undoNow(ctx, key, true) }

func (b *Book) undoNow(ctx context.Context, key string, task bool) error {
	for {
		r, err := b.load(ctx, key)
		if err != nil {
			return err
		}
		if r == nil || r.Wake.IsZero() {
			return ErrNothingWaits
		}
		now, err := b.store.Now(ctx)
		if err != nil {
			return unavailable(ctx, err)
		}
		if task {
			if err := b.cancelTask(ctx, r, now); !errors.Is(err, ErrConflict) {
				return err
			}
			continue
		}
		e, err := b.entry(r)
		if err != nil {
			return err
		}
		e.UndoNow, e.GivenUp, e.Wake, e.KeepUntil = true, false, now, time.Time{}
		if err := b.Put(ctx, e); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// roster lists the targets that servers have had: to name a queue takes its target. Sealed is
// the id of the key that it was sealed with.
type roster struct {
	Targets []Target `json:"targets"`
	Sealed  uint32   `json:"sealed,omitzero"`
}

// mostTargets bounds the roster.
const mostTargets = 20_000

// Targets returns the targets that servers of this audience and keyset have announced, as
// far as that can be read.
func (b *Book) Targets(ctx context.Context) ([]Target, error) {
	names, err := b.keyedNames("roster")
	if err != nil {
		return nil, err
	}
	var all []Target
	for _, name := range names {
		_, found, err := b.roster(ctx, name)
		if err != nil && !errors.Is(err, ErrUnreadable) {
			return nil, err
		}
		all = union(all, found.Targets)
	}
	return all, nil
}

func (b *Book) roster(ctx context.Context, name string) (rev uint64, found roster, err error) {
	r, err := b.load(ctx, name)
	if r == nil || err != nil {
		return 0, found, err
	}
	err = b.open(name, r.Body, &found)
	return r.Rev, found, err
}

// Announce adds targets to those that servers have had. It brings the list along when keys
// are rotated: to the name that is made now, and under the key that seals now. A list that
// cannot be read is left alone, with [ErrUnreadable].
func (b *Book) Announce(ctx context.Context, targets []Target) error {
	names, err := b.keyedNames("roster")
	if err != nil {
		return err
	}
	for {
		rev, found, err := b.roster(ctx, names[0])
		if err != nil {
			return err
		}
		known, err := b.Targets(ctx)
		if err != nil {
			return err
		}
		all := union(union(found.Targets, known), targets)
		key := b.keys().Primary().ID
		if rev != 0 && len(all) == len(found.Targets) && found.Sealed == key {
			return nil
		}
		if len(all) > mostTargets {
			return fmt.Errorf("records: more than %d tools and revisions", mostTargets)
		}
		body, err := b.seal(names[0], roster{all, key})
		if err != nil {
			return err
		}
		if err := b.swap(ctx, &ledger.Record{Key: names[0], Rev: rev, Body: body}); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

func union(list, more []Target) []Target {
	list = slices.Clone(list)
	for _, t := range more {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}
