package durable

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

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

// noticesID is the row of the notices of the audience.
func (c *Core) noticesID() store.ID { return c.rows.hashID("notices") }

// Tell tells all processes of the audience something.
func (c *Core) Tell(ctx context.Context, list []Notice) error {
	for len(list) > 0 {
		n := min(len(list), noticesAtOnce)
		if err := c.tell(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (c *Core) tell(ctx context.Context, list []Notice) error {
	id := c.noticesID()
	for {
		record, err := insist(ctx, &c.rows.reads, func() (*store.Record, error) { return c.rows.store.Load(ctx, id) })
		if errors.Is(err, store.ErrNotFound) {
			record = &store.Record{ID: id, Audience: c.rows.audience, Tool: "notices", Mode: store.ModeNotices, Status: store.Waiting, Format: format}
		} else if err != nil {
			return err
		}
		items := make([]store.Item, len(list))
		for i := range list {
			body, err := c.rows.seal(id, placeItem, record.Head+uint64(i)+1, &list[i])
			if err != nil {
				return err
			}
			items[i] = store.Item{Kind: "notice", Body: body}
		}
		if record.Head > 0 {
			record.Fence++
		}
		if record.Head-record.Floor > 2*keptNotices {
			record.Floor = record.Head - keptNotices
		}
		_, err = insist(ctx, &c.rows.writes, func() (any, error) {
			return nil, c.rows.store.Write(ctx, record, store.Change{Items: items})
		})
		switch {
		case err == nil, errors.Is(err, store.ErrUnknown): // it may be there twice, or not; nothing depends on either
			return nil
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
}

// Noticed returns the notices after a number, and the number of the newest. lost says that there were
// more, which are gone: anything may have changed.
func (c *Core) Noticed(ctx context.Context, after uint64) (list []Notice, newest uint64, lost bool, err error) {
	id := c.noticesID()
	for {
		log, err := insist(ctx, &c.rows.reads, func() (*store.Log, error) { return c.rows.store.Log(ctx, id, after, noticesAtOnce) })
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, 0, after > 0, nil
		case err != nil:
			return nil, after, false, err
		case after > log.Head: // of another store
			return nil, log.Head, true, nil
		}
		lost = lost || log.Floor > after
		for i := range log.Items {
			n := Notice{N: log.Items[i].N}
			if err := c.rows.open(id, placeItem, n.N, log.Items[i].Body, &n); err != nil {
				lost = true
				continue
			}
			list = append(list, n)
		}
		if len(log.Items) < noticesAtOnce {
			return list, log.Head, lost, nil
		}
		after = log.Items[len(log.Items)-1].N
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
		list, newest, lost, err := c.Noticed(reading, after)
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
		pause := time.NewTimer(wait)
		select {
		case <-changed:
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		pause.Stop()
	}
}
