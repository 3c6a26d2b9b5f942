package sqlite

import (
	"math"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// mostKnown bounds known.
const mostKnown = 2048

// known are rows that this process has written last, by their keys, so that the writer need not
// look for one that is written again: that costs as much as to write it. It must be emptied when
// somebody else has written. What is rolled back does not matter: the record comes to that revision
// only by being written again.
type known map[string]row

type row struct {
	id           int64
	rev          uint64
	queue, owner string
	wake, keep   int64 // in micros
}

// find returns the row of a record if it is known to be at the record's revision, and whether its
// queue and owner, and its times, are the record's.
func (k known) find(r *ledger.Record) (id int64, named, timed, ok bool) {
	found, ok := k[r.Key]
	if !ok || found.rev != r.Rev {
		return 0, false, false, false
	}
	return found.id, found.queue == r.Queue && found.owner == r.Owner, found.wake == micros(r.Wake) && found.keep == micros(r.Keep), true
}

// note notes that a record was written at the revision after its own.
func (k known) note(r *ledger.Record, id int64) {
	if len(k) >= mostKnown {
		clear(k)
	}
	k[r.Key] = row{id, r.Rev + 1, r.Queue, r.Owner, micros(r.Wake), micros(r.Keep)}
}

// micros is a time in microseconds since 1970, which the zero time is before.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMicro()
}
