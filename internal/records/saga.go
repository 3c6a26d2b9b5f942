package records

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Saga is what is remembered of a saga.
type Saga struct {
	// Target is what it is a saga of, ID its id and Principal whose it is.
	Target    Target
	ID        []byte
	Principal string
	// Began is when it was first recorded.
	Began time.Time

	// At counts its turns up to the newest token, and From those up to the token that the
	// last turn was taken with: 0 if that was the first.
	At   uint32
	From uint32
	// Page is the From of the newest turn that was taken with a token which came with a part of
	// the result.
	Page uint32
	// Token is the newest token, and Purpose what it was sealed for. Of a saga that has
	// ended it is the one with which what could not be undone is tried again.
	Token   string
	Purpose string
	// Effects are those that it has begun, by their names.
	Effects []string
	// Expires is until when its tokens are good. Undoable: what they did may be undone
	// later still.
	Expires  time.Time
	Undoable bool
	// Keep is until when the record is kept at least.
	Keep time.Time

	// Digest is that of the request of the last turn, and Response what came of it.
	Digest   []byte
	Response []byte
	// How is what the last turn was.
	How How
	// Report is what was undone last, if that was later than the response.
	Report []byte
	// Ended: no turn will be taken any more.
	Ended bool

	// Claim is the turn that is under way, or was when its worker died.
	Claim *Claim

	// Attempts counts the undos that have failed, the first at Failing, the last with
	// LastError. GivenUp: it is not tried any more. UndoNow: an operator wants it undone.
	Attempts  int
	Failing   time.Time
	LastError string
	GivenUp   bool
	UndoNow   bool
}

// How says what a turn is.
type How string

// What turns are.
const (
	// HowTurn is a turn that the client asked for.
	HowTurn How = ""
	// HowCancelled: the client cancelled the saga.
	HowCancelled How = "cancelled"
	// HowAbandoned: nobody came any more.
	HowAbandoned How = "abandoned"
	// HowBroken: a turn broke off that nobody could take again.
	HowBroken How = "broken"
	// HowFailed: a turn that the client asked for has ended badly, and what the saga did is being
	// undone. Only claims say so: once it is undone it is a turn as any other.
	HowFailed How = "failed"
)

// Claim is a turn that somebody takes.
type Claim struct {
	// From is as in [Saga], Digest identifies the request, and How what the turn is.
	From   uint32
	Digest []byte
	How    How
	// Nonce tells this claim from all others, and Until is when somebody else may take the
	// turn, unless the claim was renewed.
	Nonce []byte
	Until time.Time
	// Lease is for how long it was made, and is renewed; zero if an earlier program has made it.
	Lease time.Duration
	// Request is what is needed to take the turn again, or to go on undoing it, encoded by whoever
	// takes turns.
	Request []byte
}

// OfTurn reports whether the claim is on a turn that the client has asked for.
func (c *Claim) OfTurn() bool { return c.How == HowTurn || c.How == HowFailed }

// Alive reports whether whoever made the claim may still be at work, by the time of [Book.Now].
func (c *Claim) Alive(now time.Time) bool { return c != nil && now.Before(c.Until) }

// Entry is the record of a saga as it was found, or is to be written.
type Entry struct {
	Saga
	// Wake is when a worker must look at it, Keep until when it is kept at least; zero is
	// never and for ever.
	Wake, KeepUntil time.Time

	key string
	rev uint64
}

// Exists reports whether there is such a record in the store.
func (e *Entry) Exists() bool { return e.rev != 0 }

// Key is the record's name in the store.
func (e *Entry) Key() string { return e.key }

// Clone returns a copy that can be changed, but for what its slices and pointers lead to.
func (e *Entry) Clone() *Entry {
	c := *e
	return &c
}

// Saga returns the record of a saga; it may not exist yet.
func (b *Book) Saga(ctx context.Context, principal string, id [16]byte) (*Entry, error) {
	key := b.sagaKey(principal, id[:])
	r, err := b.load(ctx, key)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return b.Fresh(principal, id), nil
	}
	return b.entry(r)
}

// Fresh returns the record of a saga that has none, as it is known.
func (b *Book) Fresh(principal string, id [16]byte) *Entry {
	return &Entry{key: b.sagaKey(principal, id[:]), Saga: Saga{ID: id[:], Principal: principal}}
}

func (b *Book) sagaKey(principal string, id []byte) string {
	return b.plainName("saga", principal, string(id))
}

// entry opens a record that was found.
func (b *Book) entry(r *ledger.Record) (*Entry, error) {
	e := &Entry{key: r.Key, rev: r.Rev, Wake: r.Wake, KeepUntil: r.Keep}
	if err := b.open(r.Key, r.Body, &e.Saga); err != nil {
		return nil, err
	}
	if b.sagaKey(e.Principal, e.ID) != r.Key {
		return nil, fmt.Errorf("%w: it is not a saga's", ErrUnreadable)
	}
	return e, nil
}

// Put writes e, which has been found or is new, unless the record was changed meanwhile
// ([ErrConflict]). Unless the saga is over it is on the account of its principal, and a new
// one fails with [ErrFull] if that has too many. From then on e must not be
// changed.
func (b *Book) Put(ctx context.Context, e *Entry) error {
	queues, err := b.queues(e.Target)
	if err != nil {
		return err
	}
	owner := "" // of what is only remembered so that old tokens do nothing
	if !e.Ended || e.Token != "" {
		if owner, err = b.owner(e.Principal); err != nil {
			return err
		}
	}
	if e.rev == 0 && owner != "" {
		if err := b.room(ctx, owner); err != nil {
			return err
		}
	}
	body, err := b.seal(e.key, &e.Saga)
	if err != nil {
		return err
	}
	r := &ledger.Record{Key: e.key, Rev: e.rev, Queue: queues[0], Owner: owner, Body: body, Wake: e.Wake, Keep: e.KeepUntil}
	if err := b.swap(ctx, r); err != nil {
		return err
	}
	e.rev = r.Rev
	b.recent.note(e)
	return nil
}

// Wait returns the record as soon as it is another one than e. It fails when ctx ends, also
// with [context.DeadlineExceeded] if that has a deadline.
func (b *Book) Wait(ctx context.Context, e *Entry) (*Entry, error) {
	r, err := insist(dateless{ctx}, &b.reads, func() (*ledger.Record, error) {
		for r, err := range b.store.Watch(ctx, e.key, e.rev) {
			if ctx.Err() != nil {
				err = context.Canceled // which is no failure of the store
			}
			return r, err
		}
		return nil, errors.New("the store stopped watching")
	})
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return b.entry(r)
}

// dateless is a context whose deadline is what is waited for: to wait until then is not in vain.
type dateless struct{ context.Context }

// Deadline implements [context.Context].
func (dateless) Deadline() (end time.Time, bounded bool) { return end, false }

// Take waits for sagas of the targets whose Wake has come, and takes them: nobody else does
// for the time of the lease. It leaves out what it cannot read, and counts that.
func (b *Book) Take(ctx context.Context, targets []Target, limit int, lease time.Duration) (list []*Entry, unreadable int, err error) {
	found, err := b.take(ctx, targets, b.queues, limit, lease)
	list = readable(found, b.entry)
	return list, len(found) - len(list), err
}

// String names the saga.
func (s *Saga) String() string { return hex.EncodeToString(s.ID) }
