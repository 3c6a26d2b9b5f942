package handshake

import (
	"context"
	"encoding/json"
	"math"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
)

// A call that is asked elsewhere has no reader: package elsewhere waits for its task. But any replica finds that by its number
// (requestkey.go), and answers a client that comes back with Last-Event-ID. Cancellations and ends of sessions reach the process
// that holds the call; what none holds any more is of the form or the page that is open, and not of the request.

// heldCall is the request of such a call in a session. It implements [elsewhere.Request].
type heldCall struct {
	*reader
	held bool
}

// allSeen is the number of the last event that a client has which has the response.
const allSeen = math.MaxInt64

// askElsewhere answers a call whose client cannot be asked. number is that of a request which is read on; 0 is a new one.
func (c *call) askElsewhere(ctx context.Context, q *elsewhere.Call, number uint64) (json.RawMessage, error) {
	h := &heldCall{reader: &reader{call: c, number: number}}
	if c.Tasks != nil && c.post != nil {
		q.Request = h
	}
	result, err := c.elsewhere.Call(ctx, c.Exchange, q)
	if h.held {
		h.markPassed(allSeen)
	}
	return c.toolResult(turns.End{Outcome: engine.Outcome{Result: result}}, err)
}

// Start implements [elsewhere.Request].
func (h *heldCall) Start(ctx context.Context, s *tasks.Start) (*tasks.Task, error) {
	if s.Request.IdempotencyKey != "" { // the key leads to it
		return h.Tasks.Start(ctx, *s)
	}
	var note taskNote
	if err := json.Unmarshal(s.Note, &note); err != nil {
		return nil, err
	}
	note.Token = h.progressToken()
	return h.startOwn(ctx, s, &note)
}

// Held implements [elsewhere.Request].
func (h *heldCall) Held(ctx context.Context, t *tasks.Task) {
	if h.number == 0 && h.streams() {
		h.enroll(ctx, t.ID, true)
	}
	h.held = true
	h.markPassed(t.Events)
}

// Passed implements [elsewhere.Request].
func (h *heldCall) Passed(event uint64) {
	if h.held {
		h.markPassed(event)
	}
}

// askedElsewhere reports whether a task is that of a call that is asked elsewhere.
func askedElsewhere(t *tasks.Task) bool {
	n, ok := elsewhere.NoteOf(t)
	return ok && !n.Task
}

// askedElsewhere reports whether the request is a call that is asked elsewhere.
func (r *reading) askedElsewhere() bool { return r.Method == callMethod && askedElsewhere(r.task) }

// askOn answers a call that another request has begun, which was asked elsewhere. Its client has the events up to seen.
func (c *call) askOn(ctx context.Context, found *reading, seen uint64) (json.RawMessage, error) {
	q := &elsewhere.Call{Client: *c.client(), Program: found.task.Program, Found: found.task, After: seen}
	if note, _ := noteOf(found.task); note.Number == 0 { // the client has begun it with a key, or has its token
		q.Token = found.TaskID
	}
	return c.askElsewhere(ctx, q, found.number)
}
