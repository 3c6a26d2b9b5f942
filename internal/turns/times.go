package turns

import (
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// How long sagas are remembered, and when a worker has to look at them.

// due is when a saga that waits for its client is abandoned. Zero: it is at once, once no turn
// is under way.
func (c *Config) due(e *records.Entry) time.Time {
	if e.UndoNow || e.Expires.IsZero() {
		return time.Time{}
	}
	return e.Expires.Add(c.Codec.Options().Skew)
}

// keep is until when a saga is remembered of which nothing is to be undone.
func (c *Config) keep(e *records.Entry) time.Time {
	// The store forgets by its clock, and a server that takes the token for as long as clocks may
	// differ may be behind that by as much again.
	until := e.Expires.Add(2 * c.Codec.Options().Skew)
	if e.Undoable {
		until = until.Add(max(c.UndoGrace, 0))
	}
	// Long enough, too, for those who wait for this turn.
	return later(later(until, e.Keep), c.Now().Add(time.Minute))
}

// Pauses between attempts to undo, and for how long there are any.
const (
	firstPause = time.Minute
	lastPause  = 6 * time.Hour
	tryFor     = 14 * 24 * time.Hour
	keepFailed = 30 * 24 * time.Hour
)

// tryLater records that an undo has failed.
func (c *Config) tryLater(e *records.Entry, why error) {
	now := c.Now()
	if e.Attempts++; e.Attempts == 1 {
		e.Failing = now
	}
	if why != nil {
		e.LastError = clip(why.Error())
	}
	// As long again as it has failed by now: the pauses double, and who cancels again and again
	// meanwhile does not make them longer.
	pause := min(max(now.Sub(e.Failing), firstPause), lastPause)
	e.Wake, e.KeepUntil = now.Add(pause), time.Time{}
	if now.Sub(e.Failing) >= tryFor {
		// It is shown to operators until it is forgotten.
		e.GivenUp, e.KeepUntil = true, later(c.keep(e), now.Add(keepFailed))
		e.Wake = e.KeepUntil
	}
}
