package handshake

import (
	"container/list"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// A session's id is good until it expires, so what a client has ended before must be
// remembered: by this process, and in the ledger by all, if there is one.

// endings are sessions that were ended before their time. The table's mutex guards them.
type endings struct {
	ids   map[tokens.ID]*list.Element
	order list.List // of ending, the oldest first
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
