package sagatest

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// Call is a call of an effect's Do or Undo, as the engine made it.
type Call struct {
	// Turn counts the client's requests: 1 is the call of the tool.
	Turn int
	// Effect is the effect's name, Key its idempotency key.
	Effect string
	Key    saga.Key
	// Undo: it was Undo that was called. Known is what Undo was given.
	Undo, Known bool
	// Input is what Do was given; Output is what it returned.
	Input, Output json.RawMessage
	// Err is what Do or Undo returned, or the disturbance of a sweep.
	Err error
	// Cut: the turn was cut off, so the engine never learned how the call ended.
	Cut bool

	// hook is the call, and out its result, with their secrets. n is its number in the turn.
	hook sagahooks.Call
	out  sagahooks.Value
	n    int
	// reached: the author's code was called.
	reached bool
}

// did reports whether the call has acted on the world as far as can be known.
func (c *Call) did() bool {
	return c.reached && (c.Output != nil || c.Undo) && (c.Err == nil || errors.As(c.Err, new(*disturbed)))
}

// world is what a saga acts on in a test, and its client hears: it calls the author's code,
// records what comes of it, and lets go wrong what a scenario wants to go wrong. All servers of a saga share it.
type world struct {
	mu    sync.Mutex
	calls []Call
	stray string // an effect that was asked for when its turn was over
	plan  cut    // the scenario's
	stubs map[string][]sagahooks.Performed
	// look returns what the author's world looks like, or is nil.
	look   func() string
	looked string
	// broken are rules that the turn has broken. outside is another if the saga is suspended then, or nil.
	broken  []broken
	outside *broken

	progress []Progress
	logs     []Log
}

// Progress implements [engine.Notifier].
func (w *world) Progress(p engine.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = append(w.progress, Progress(p))
}

// Log implements [engine.Notifier].
func (w *world) Log(l engine.Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, Log(l))
}

// lookAt has the world of a subject looked at.
func (w *world) lookAt(s Subject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.World != nil {
		w.look = func() string { return look(s.World()) }
		w.looked = w.look()
	}
}

// changed looks at the author's world again, and returns how it differs from what it was; empty if it does not.
func (w *world) changed() string {
	before := w.looked
	if w.look != nil {
		w.looked = w.look()
	}
	if w.looked == before {
		return ""
	}
	return differ(before, w.looked)
}

// now is what the author's world looks like now; empty if that is not shown.
func (w *world) now() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed()
	return w.looked
}

// taken returns a copy of the calls; a tool's stray goroutine may be recording still.
func (w *world) taken() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// broke returns the rules that were broken since it was called last, by a turn that has suspended the saga or not.
func (w *world) broke(suspended bool) []broken {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.broken
	if suspended && w.outside != nil {
		list = append(list, *w.outside)
	}
	w.broken, w.outside = nil, nil
	return list
}
