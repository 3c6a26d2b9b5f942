package sagatest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/ledger"
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
func (c *Call) did() bool { return c.reached && (c.Output != nil || c.Undo) && c.ownErr() == nil }

func (c *Call) ownErr() error {
	if errors.As(c.Err, new(*disturbed)) {
		return nil
	}
	return c.Err
}

// disturbed is the error of an effect that a sweep lets fail.
type disturbed struct{ what string }

func (d *disturbed) Error() string { return "sagatest: " + d.what }

// fault is what happens to a call.
type fault int

const (
	noFault    fault = iota
	cutBefore        // the turn ends before the call
	cutAfter         // the turn ends after the call
	stopBefore       // the turn is stopped from outside: its context ends
	refuse           // the call is refused and does nothing
	failUndone       // the call fails and has done nothing
	failDone         // the call fails and has done its work
)

// world is what a saga acts on in a test, and its client hears: it calls the author's code,
// records what comes of it, and lets go wrong what a scenario wants to go wrong.
type world struct {
	mu    sync.Mutex
	turn  int // 0 between turns
	last  int // the last turn there was
	calls []Call
	late  []string // effects asked for after a flow had suspended
	stray []string // effects asked for when no turn was under way
	// seen numbers the calls of this turn.
	seen  map[string]int
	plan  cut // the scenario's
	stubs map[string][]sagahooks.Performed
	dead  bool
	stop  context.CancelFunc
	// look returns what the author's world looks like, or is nil.
	look    func() string
	looked  string
	outside []change
	wrote   []change // in effects that are ReadOnly

	progress []Progress
	logs     []Log
}

// change is something that happened to the author's world outside of effects.
type change struct {
	turn          int
	effect        string // in which it was, if it was in one
	before, after string
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

func (w *world) begin(turn int, stop context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn, w.last, w.dead, w.stop, w.seen = turn, turn, false, stop, make(map[string]int)
}

// wasCut reports whether the turn was cut off.
func (w *world) wasCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// taken returns a copy of the calls; a tool's stray goroutine may be recording still.
func (w *world) taken() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compare()
	w.turn, w.dead = 0, false
}

// compare notes what changed since the last look, outside of effects.
func (w *world) compare() {
	before := w.looked
	if w.lookAgain(); w.looked != before {
		w.outside = append(w.outside, change{turn: w.turn, before: before, after: w.looked})
	}
}

func (w *world) lookAgain() {
	if w.look != nil {
		w.looked = w.look()
	}
}

// line is how one server reaches the ledger, and the world in a turn. A server whose turn is over or was cut off, or
// that has died, reaches neither any more. So the kit distinguishes what a turn does from what a goroutine does that has outlived it.
type line struct {
	*world
	turn  int
	store shelf
	// at is asked before and after each write, by its number from 1 on, whether the server dies there; nil: it does not.
	at func(write int, after bool) bool
	// writes counts what the server has asked the ledger to write.
	writes int
	died   bool
}

func (r *rig) line(turn int) *line {
	l := &line{world: r.world, turn: turn}
	l.store = shelf{intercept.Store{Store: r.ledger, Around: l.reach}}
	return l
}

func (l *line) reach(_ context.Context, c intercept.Call, next func() error) error {
	l.mu.Lock()
	over := l.died || l.dead || l.turn != l.world.turn
	if c.Method == "Write" && !over {
		l.writes++
	}
	write := l.writes
	l.mu.Unlock()
	switch {
	case over && c.Method != "Listen":
		return ledger.ErrClosed
	case c.Method != "Write" || l.at == nil:
		return next()
	case l.dies(write, false):
		return ledger.ErrClosed
	}
	err := next()
	if err == nil && l.dies(write, true) {
		return ledger.ErrClosed
	}
	return err
}

func (l *line) dies(write int, after bool) bool {
	dies := l.at(write, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.died = l.died || dies
	return dies
}

// Late implements [sagahooks.World].
func (w *line) Late(effect string, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if over {
		w.stray = append(w.stray, effect)
	} else {
		w.late = append(w.late, effect)
	}
}

// Perform implements [sagahooks.World].
func (w *line) Perform(ctx context.Context, c sagahooks.Call, perform func(context.Context) (sagahooks.Value, error)) (any, error) {
	fault, stub := w.before(c)
	switch {
	case fault == cutBefore:
		runtime.Goexit()
	case fault == stopBefore:
		return nil, cmp.Or(ctx.Err(), context.Canceled)
	case fault == refuse:
		return nil, w.after(c, nil, saga.Refused(&disturbed{"refused"}), false, false)
	case fault == failUndone:
		return nil, w.after(c, nil, &disturbed{"failed without having been done"}, false, false)
	case stub != nil:
		return stub.Output, nil
	}
	done := false
	defer func() {
		if !done { // a panic, or Goexit in the author's code
			_ = w.after(c, nil, errors.New("the effect panicked"), true, false)
		}
	}()
	out, err := perform(ctx)
	done = true
	if err == nil && fault == failDone {
		return nil, w.after(c, &out, &disturbed{"failed although it was done"}, true, false)
	}
	err = w.after(c, &out, err, true, fault == cutAfter)
	if fault == cutAfter {
		runtime.Goexit()
	}
	return out, err
}

// before says what is to happen to a call.
func (w *line) before(c sagahooks.Call) (fault, *sagahooks.Performed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.died:
		return stopBefore, nil
	case w.turn != w.world.turn:
		w.stray = append(w.stray, c.Effect)
		return cutBefore, nil
	}
	w.compare()
	if w.dead {
		// The process has died; what still runs here are deferred functions.
		return cutBefore, nil
	}
	if list := w.stubs[c.Effect]; len(list) > 0 && !c.Undo {
		w.stubs[c.Effect] = list[1:]
		return noFault, &list[0]
	}
	id := idOf(c)
	if _, known := w.seen[id]; !known {
		w.seen[id] = len(w.seen)
	}
	if w.plan.turn != w.turn || w.plan.n != w.seen[id] {
		return noFault, nil
	}
	switch w.plan.fault {
	case cutBefore:
		w.dead = true
		w.record(c, Call{Cut: true})
	case stopBefore:
		w.stop()
		w.record(c, Call{Err: context.Canceled}) // it was begun, though it does not arrive
	}
	return w.plan.fault, nil
}

func (w *world) after(c sagahooks.Call, out *sagahooks.Value, err error, reached, cut bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.looked
	if w.lookAgain(); c.ReadOnly && w.looked != before {
		w.wrote = append(w.wrote, change{w.turn, c.Effect, before, w.looked})
	}
	how := Call{Err: err, reached: reached, Cut: cut}
	if out != nil {
		how.Output, how.out = out.JSON, *out
	}
	w.record(c, how)
	w.dead = w.dead || cut
	return err
}

func (w *world) record(c sagahooks.Call, how Call) {
	how.Turn, how.Effect, how.Key, how.Undo, how.Known, how.Input = w.turn, c.Effect, saga.Key(c.Key), c.Undo, c.Known, c.Input.JSON
	how.hook, how.n = c, w.seen[idOf(c)]
	w.calls = append(w.calls, how)
}

// idOf tells calls of a turn apart, of whose tries it is the same.
func idOf(c sagahooks.Call) string { return fmt.Sprint(c.Key, c.Undo) }
