package durable

import (
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// What a row says of a saga that waits for its client, or has ended, and how long it is kept.

func (c *Core) suspendClient(r *row, end *turns.End, position []byte) []event {
	s, pos, now := r.Client, end.Position, c.Turns.Now()
	s.At, s.Token, s.Purpose, r.Effects = pos.Turn, end.Token, end.Policy.Purpose, pos.Effects()
	expires := later(now, pos.Rests()).Add(c.Turns.Codec.Options().TTL)
	if !pos.Deadline.IsZero() && pos.Deadline.Before(expires) {
		expires = pos.Deadline
	}
	s.Expires = later(s.Expires, expires)
	s.Undoable = s.Undoable || pos.HasEffects()
	r.Times.Due, r.Times.Keep = c.clientDue(s), c.clientKeep(r)
	r.Stand = stand{Position: position}
	r.Status, r.Wake, r.Running = store.Waiting, time.Time{}, running{}
	if pos.HasEffects() || r.UndoNow {
		r.Wake = later(r.due(), dueAt(r.now()))
	}
	return []event{{kind: kindTurn, body: body{Effects: r.Effects}}}
}

// endClient notes in a row that the saga has ended. What the report says is outstanding is tried again.
func (c *Core) endClient(r *row, end *turns.End, report *engine.UndoReport) []event {
	s := r.Client
	s.At, s.Turn, s.Token, s.Purpose = max(s.At, s.From), nil, "", ""
	if report != nil && report.Again != nil { // the client has a token to have that tried again
		s.Expires, s.Undoable = later(s.Expires, c.Turns.Now().Add(c.Turns.Codec.Options().TTL)), true
	}
	r.Times.Keep = c.clientKeep(r)
	r.Cancelled, r.UndoNow = false, false
	e := body{Ending: completed, Bad: end.Result != nil && end.Result.IsError}
	if s.How != howTurn {
		e.Ending = cancelled
	} else if end.Messages != nil || end.Contents != nil || end.Result != nil && report == nil {
		r.Shown.Ending = completed // for an operator who wanted it undone
	}
	events := c.over(r, e, report, end.Err)
	r.Effects = events[0].Effects
	return events
}

// clientKeep is until when a saga is remembered of which nothing is to be undone.
func (c *Core) clientKeep(r *row) time.Time {
	// The store forgets by its clock, and a server that takes the token for as long as clocks may
	// differ may be behind that by as much again.
	until := r.Client.Expires.Add(2 * c.Turns.Codec.Options().Skew)
	if r.Client.Undoable {
		until = until.Add(max(c.Turns.UndoGrace, 0))
	}
	// Long enough, too, for those who wait for this turn.
	return later(later(until, r.Times.Keep), c.Turns.Now().Add(time.Minute))
}

// clientDue is when a saga that waits for its client is abandoned; zero: at once, if no turn is under way.
func (c *Core) clientDue(s *clientState) time.Time {
	if s.Expires.IsZero() {
		return time.Time{}
	}
	return s.Expires.Add(c.Turns.Codec.Options().Skew)
}

// due is when a worker is to look at a saga that waits for its client.
func (r *row) due() time.Time {
	if r.Times.Due.IsZero() || r.UndoNow {
		return dueAt(r.now())
	}
	return r.Times.Due
}
