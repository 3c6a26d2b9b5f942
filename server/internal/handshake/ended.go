package handshake

import (
	"container/list"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A session's id is good until it expires, so what a client has ended before must be
// remembered: by this process, and in the ledger by all, if there is one.

// endings are sessions that were ended before their time. The table's mutex guards them.
type endings struct {
	ids   map[tokens.ID]*list.Element
	order list.List // of ending, the oldest first
	// until is when the ledger is to be asked again after it has failed.
	until atomic.Pointer[time.Time]
}

type ending struct {
	id      tokens.ID
	expires time.Time
}

// maxEndings bounds what a process remembers of sessions that were ended. Above, the oldest
// are forgotten: their ids open again, for those whom they were given to.
const maxEndings = 10_000

func (e *endings) has(id tokens.ID) bool { return e.ids[id] != nil }

func (e *endings) add(id tokens.ID, expires time.Time) {
	if e.has(id) {
		return
	}
	if e.ids == nil {
		e.ids = make(map[tokens.ID]*list.Element)
	}
	e.ids[id] = e.order.PushBack(ending{id, expires})
	if len(e.ids) > maxEndings {
		delete(e.ids, e.order.Remove(e.order.Front()).(ending).id)
	}
}

// forget removes those that have expired by themselves, as far as they were ended first.
func (e *endings) forget(now time.Time) {
	for first := e.order.Front(); first != nil && !now.Before(first.Value.(ending).expires); first = e.order.Front() {
		delete(e.ids, e.order.Remove(first).(ending).id)
	}
}

// How long the ledger may take to say whether a session was ended, and for how long it is
// not asked again if it fails. Sessions go on meanwhile: they need no ledger.
const (
	endedTime  = time.Second
	endedPause = time.Second
	// markTime is how long a client waits until it is written down that it has ended its
	// session.
	markTime = 5 * time.Second
)

// endedElsewhere reports whether the ledger says that a session was ended.
func (d *handshake) endedElsewhere(ctx context.Context, a *agreed) bool {
	book, e := d.Turns.Records(), &d.sessions.ends
	if book == nil {
		return false
	}
	if until := e.until.Load(); until != nil && time.Now().Before(*until) {
		return false
	}
	within, cancel := context.WithTimeout(ctx, endedTime)
	defer cancel()
	ended, err := book.SessionEnded(within, a.id)
	if err != nil && ctx.Err() == nil {
		until := time.Now().Add(endedPause)
		e.until.Store(&until)
		d.Log.WarnContext(ctx, "the ledger does not say which sessions were ended: they go on meanwhile", "error", err)
	}
	return ended
}

// end ends a session as its client wishes: here, and with a ledger everywhere.
func (d *handshake) end(ctx context.Context, a *agreed, principal string) *wire.Error {
	d.sessions.drop(a.name) // at once: the ledger may take long
	book := d.Turns.Records()
	if book == nil {
		d.sessions.end(a)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, markTime)
	defer cancel()
	err := book.EndSession(ctx, principal, a.id, a.expires)
	switch {
	case err == nil:
		d.sessions.end(a)
		return nil
	case errors.Is(err, records.ErrFull):
		d.sessions.end(a)
		return wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, "the session has ended in this replica only, as too many sessions of yours were ended: let it expire")
	}
	// It goes on, or the client could not send this again.
	d.Log.WarnContext(ctx, "the end of a session cannot be written down", "error", err)
	return wire.TryAgain("the calls of the session in this replica have ended, but its end cannot be written down at present: send the same request again")
}
