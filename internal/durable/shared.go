package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Rows without a saga hold what the processes of an audience share: documents, and one log of notices.

// ErrConflict: others have changed a document at the same time, each time that it was tried.
var ErrConflict = store.ErrConflict

// Document is something small that a dialect remembers beside sagas, such as what a session has subscribed to.
type Document[T any] struct {
	Value T
	row   *row // as it was read or written; nil or with a Head of 0 if there is none yet
}

// Exists reports whether there is such a document.
func (d *Document[T]) Exists() bool { return d.Version() > 0 }

// Version grows with each change of the document; 0 means that there is none.
func (d *Document[T]) Version() uint64 {
	if d.row == nil {
		return 0
	}
	return d.row.Head
}

// Name names a document.
type Name = store.ID

// DocumentName names a document among all: parts must be such that others cannot guess them.
func (o *Operator) DocumentName(kind string, parts ...string) Name {
	return o.rows.hashID("document "+kind, parts...)
}

// noDocument is the row of a document that there is not yet.
func noDocument(name Name) *row { return &row{Record: store.Record{ID: name}, read: time.Now()} }

// ReadDocument returns a document, which is empty if there is none. It fails with [ErrUnreadable] if it
// cannot be read here.
func ReadDocument[T any](ctx context.Context, c *Core, name Name) (*Document[T], error) {
	r, err := c.rows.load(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &Document[T]{row: r}
	if r == nil {
		d.row = noDocument(name)
	} else if err := decoder.Unmarshal(r.Stand.Position, &d.Value); err != nil {
		return nil, fmt.Errorf("%w: a document does not decode: %w", ErrUnreadable, err)
	}
	return d, nil
}

// ChangeDocument changes a document, or makes it, and has it kept until then. It begins with what was found before, or with
// nil; whenever another process was faster, change is called again with what there is then, until ctx ends: then it fails
// with [ErrConflict]. If change fails, or reports that there is nothing to change, nothing is written. What a principal has in
// documents is counted apart from its sagas.
func ChangeDocument[T any](ctx context.Context, c *Core, principal string, name Name, keep time.Time, found *Document[T], change func(*T) (bool, error)) (*Document[T], error) {
	return changeDocument(ctx, c, name, found, func(v *T, _ bool) (*kept, error) {
		changed, err := change(v)
		if err != nil || !changed {
			return nil, err
		}
		return &kept{principal: principal, until: keep}, nil
	})
}

// kept is for whom a document is kept, and until when. account is on whose account it counts, if that is not the
// principal's. uncounted: it comes with something that counts. over: it does not count against others either.
type kept struct {
	principal, account string
	until              time.Time
	uncounted, over    bool
}

// changeDocument is [ChangeDocument] where change, which learns whether there is a document, says for whom it is kept and
// until when, with nil for no change.
func changeDocument[T any](ctx context.Context, c *Core, name Name, found *Document[T], change func(v *T, exists bool) (*kept, error)) (*Document[T], error) {
	for try := 0; ; try++ {
		var err error
		if found == nil || found.row == nil {
			found, err = ReadDocument[T](ctx, c, name)
		}
		if err == nil {
			next := &Document[T]{Value: found.Value, row: found.row.clone()}
			keep, refused := change(&next.Value, found.Exists())
			if refused != nil || keep == nil {
				return found, refused
			}
			if err = c.writeDocument(ctx, keep, next.row, next.Value); err == nil {
				return next, nil
			}
			found = nil
		}
		if errors.Is(err, store.ErrConflict) {
			// A little, at random, so that those who write the same document do not meet again.
			err = failure(ctx, sleep(ctx, rand.N(min(time.Millisecond<<min(try, 6), 50*time.Millisecond))+1))
			if err == nil {
				continue
			}
			try++
		}
		if try > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", store.ErrConflict, err) // others were faster until the time was over
		}
		return nil, err
	}
}

// SetDocument is [ChangeDocument] to a value, whatever was there before.
func SetDocument[T any](ctx context.Context, c *Core, principal string, name Name, keep time.Time, value T) error {
	_, err := ChangeDocument(ctx, c, principal, name, keep, nil, func(v *T) (bool, error) {
		*v = value
		return true, nil
	})
	return err
}

func (c *Core) writeDocument(ctx context.Context, keep *kept, r *row, value any) (err error) {
	if r.Stand.Position, err = encoder.Marshal(value); err != nil {
		return fmt.Errorf("durable: encode: %w", err)
	}
	owner, most := c.rows.owner(keep.principal), shareOf(keep.account != "", c.MaxSagas)
	account := owner
	if keep.account != "" {
		account = c.rows.hashID("account", keep.account)
	}
	if keep.uncounted {
		most = 0
	}
	r.Audience, r.Owner, r.Account, r.Tool, r.Mode, r.Status = c.rows.audience, owner, account, "document", store.ModeSession, store.Waiting
	if keep.over {
		r.Status = store.Ended
	}
	r.Keep, r.Floor = keep.until, r.Head
	err = c.rows.write(ctx, r, most, event{kind: kindShared})
	if errors.Is(err, store.ErrFull) {
		return turns.ErrLedgerFull
	}
	return err
}

// PutBlob implements [turns.Memory].
func (c *Core) PutBlob(ctx context.Context, principal, account string, id [16]byte, data []byte, until time.Time) error {
	return c.writeDocument(ctx, &kept{principal: principal, account: account, until: until}, noDocument(c.DocumentName("blob", principal, string(id[:]))), data)
}

// Blob implements [turns.Memory].
func (c *Core) Blob(ctx context.Context, principal string, id [16]byte) ([]byte, error) {
	d, err := ReadDocument[[]byte](ctx, c, c.DocumentName("blob", principal, string(id[:])))
	switch {
	case errors.Is(err, ErrUnreadable):
		return nil, nil // it is forgotten
	case err != nil:
		return nil, err
	}
	return d.Value, nil
}

// Notice is what a process tells all others: that a list has changed, a session, or that a client has cancelled
// a request of which the process knows nothing. A process that has missed notices learns that, and
// looks at everything instead.
type Notice struct {
	// N is its number among the notices.
	N uint64 `cbor:"-"`
	// By is the process that tells it, Kind what it is about, and Of which of those.
	By   string `cbor:"1,keyasint"`
	Kind string `cbor:"2,keyasint"`
	Of   string `cbor:"3,keyasint,omitempty"`
}

// Notices are a log without a saga. They are trimmed to the last keptNotices, more or less, when there
// are twice as many.
const (
	keptNotices   = 512
	noticesAtOnce = 256
	// noticeTime is how long the store may take to return notices.
	noticeTime = 3 * time.Second
)

func (c *Core) noticesID() store.ID { return c.rows.hashID("notices") }

// Tell tells all processes of the audience something, and numbers the notices.
func (c *Core) Tell(ctx context.Context, list []Notice) error {
	for part := range slices.Chunk(list, noticesAtOnce) {
		events := make([]event, len(part))
		for i := range part {
			events[i] = event{kind: kindShared, body: body{Notice: &part[i]}}
		}
		for err := store.ErrConflict; errors.Is(err, store.ErrConflict); {
			if err = c.tell(ctx, events); err != nil && !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
	}
	return nil
}

func (c *Core) tell(ctx context.Context, events []event) error {
	r := noDocument(c.noticesID())
	record, err := insist(ctx, &c.rows.reads, func() (*store.Record, error) { return c.rows.store.Load(ctx, r.ID) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.Audience, r.Tool, r.Mode, r.Status = c.rows.audience, "notices", store.ModeNotices, store.Waiting
	case err != nil:
		return err
	default: // its state says nothing, and the key of that may not be enabled any more
		if r.Record = *record; r.Head-r.Floor > 2*keptNotices {
			r.Floor = r.Head - keptNotices
		}
	}
	for i := range events {
		events[i].Notice.N = r.Head + uint64(i) + 1
	}
	return c.rows.write(ctx, r, 0, events...)
}

// noticed returns the notices after a number, and the number of the newest. lost says that there were
// more, which are gone: anything may have changed.
func (c *Core) noticed(ctx context.Context, after uint64) (list []Notice, newest uint64, lost bool, err error) {
	for {
		events, log, err := c.rows.log(ctx, c.noticesID(), after, noticesAtOnce)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, 0, after > 0, nil
		case err != nil:
			return nil, after, false, err
		case after > log.Head: // of another store
			return nil, log.Head, true, nil
		}
		lost = lost || log.Floor > after
		for i := range events {
			after = events[i].n
			if n := events[i].Notice; n != nil {
				n.N = after
				list = append(list, *n)
			} else {
				lost = true // it cannot be read here
			}
		}
		if len(events) < noticesAtOnce {
			return list, log.Head, lost, nil
		}
	}
}

// Notices calls heard with all notices that there are, and with others as they come, until ctx ends or the
// store is closed. newest is the number of the last one; lost says that there were more before them. report is
// called with each failure of the store, and with nil when it works.
func (c *Core) Notices(ctx context.Context, heard func(list []Notice, newest uint64, lost bool), report func(context.Context, error)) error {
	changed, stop := c.hub.wait(c.noticesID())
	defer stop()
	for after, first := uint64(0), true; ; {
		reading, cancel := context.WithTimeoutCause(ctx, noticeTime, ErrSlow)
		list, newest, lost, err := c.noticed(reading, after)
		cancel()
		if errors.Is(err, store.ErrClosed) {
			return err
		}
		report(ctx, err)
		if err == nil && (first || len(list) > 0 || lost) {
			heard(list, newest, lost)
			after, first = newest, false
		}
		wait := c.Poll
		if err != nil {
			wait = min(wait, time.Second)
		}
		awaits(ctx, changed, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
