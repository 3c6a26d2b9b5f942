package sagatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
)

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

// err is the error of an effect that fails so, and has done nothing; nil if it does not.
func (f fault) err() error {
	switch f {
	case refuse:
		return saga.Refused(&disturbed{"refused"})
	case failUndone:
		return &disturbed{"failed without having been done"}
	}
	return nil
}

// process is one server in a turn, or at work on a task: how it reaches the ledger, and the world. When its turn is over or
// was cut off, or it has died, it reaches neither any more. So the kit distinguishes what a turn does from what a
// goroutine does that has outlived it.
type process struct {
	*world
	store shelf
	turn  int
	stop  context.CancelFunc
	fate  fate
	// seen numbers the calls of effects. Tries of one call have the same number.
	seen map[string]int
	// at is asked before and after each write, by its number from 1 on, whether the server dies there; nil: it does not.
	at func(write int, after bool) bool
	// writes counts what the server has asked the ledger to write.
	writes int
}

// fate is what has become of a process.
type fate int

const (
	alive  fate = iota
	over        // its turn is
	cutOff      // in its turn; what still runs are deferred functions
	died        // while it worked on a task
)

// process returns a server for a turn, which stop stops.
func (r *rig) process(turn int, stop context.CancelFunc) *process {
	p := &process{world: r.world, turn: turn, stop: stop, seen: make(map[string]int)}
	p.store = shelf{intercept.Store{Store: r.ledger, Around: p.reach}}
	return p
}

// shelf is a server's way to the ledger. All ledgers of a test look the same to it, so that handles are the same in every
// run.
type shelf struct{ intercept.Store }

// Identity implements [ledger.Store].
func (*shelf) Identity(context.Context) (durable.Name, error) { return durable.Name{1}, nil }

// end says that the turn is over, and reports whether it was cut off.
func (p *process) end() (cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compare()
	cut, p.fate = p.fate == cutOff, over
	return cut
}

// compare notes what has changed outside of effects.
func (p *process) compare() {
	if how := p.changed(); how != "" && p.outside == nil {
		p.outside = &broken{"until its last turn, a saga acts by effects only", "",
			fmt.Sprintf("the world changed in turn %d, outside of Do and Undo of any effect, and then the saga was suspended:%s", p.turn, how),
			"make it an effect, with what reverses it as the effect's Undo. If it is such a reversal in a defer: a defer also runs when the saga is only suspended to wait for an answer, so leave undoing to the effects"}
	}
}

// reach has a call reach the ledger, if the process does.
func (p *process) reach(_ context.Context, c intercept.Call, next func() error) error {
	write := 0
	p.mu.Lock()
	gone := p.fate != alive
	if c.Method == "Write" && !gone {
		p.writes++
		write = p.writes
	}
	p.mu.Unlock()
	if gone && c.Method != "Listen" || p.dies(write, false) {
		return ledger.ErrClosed
	}
	err := next()
	if err == nil && p.dies(write, true) {
		return ledger.ErrClosed
	}
	return err
}

// dies reports whether the process dies before or after a write, or has died.
func (p *process) dies(write int, after bool) bool {
	dies := write > 0 && p.at != nil && p.at(write, after)
	p.mu.Lock()
	defer p.mu.Unlock()
	if dies {
		p.fate = died
	}
	return p.fate == died
}

// Late implements [sagahooks.World].
func (p *process) Late(effect string, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if over {
		p.stray = effect
		return
	}
	p.broken = append(p.broken, broken{"a flow that has asked returns at once", effect,
		fmt.Sprintf("effect %q was asked for after the flow had suspended; the engine did not perform it", effect),
		"return every error of saga.Ask, r.AskAll and saga.Do where you get it; and perform no effect in a defer, which also runs when the saga is only suspended"})
}

// Perform implements [sagahooks.World].
func (p *process) Perform(ctx context.Context, c sagahooks.Call, perform func(context.Context) (sagahooks.Value, error)) (any, error) {
	fault, stub := p.before(c)
	switch {
	case fault == cutBefore:
		runtime.Goexit()
	case fault == stopBefore:
		return nil, cmp.Or(ctx.Err(), context.Canceled)
	case stub != nil:
		return stub.Output, nil
	}
	how := Call{Err: fault.err()}
	defer func() { p.after(c, how) }()
	if how.Err != nil {
		return nil, how.Err
	}
	how.reached, how.Err = true, errors.New("the effect panicked") // or its code has called Goexit, unless it returns
	how.out, how.Err = perform(ctx)
	how.Output = how.out.JSON
	switch {
	case fault == cutAfter:
		how.Cut = true
		runtime.Goexit()
	case fault == failDone && how.Err == nil:
		how.Err = &disturbed{"failed although it was done"}
		return nil, how.Err
	}
	return how.out, how.Err
}

// before says what is to happen to a call.
func (p *process) before(c sagahooks.Call) (fault, *sagahooks.Performed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.fate {
	case died:
		return stopBefore, nil
	case over:
		p.stray = c.Effect
		return cutBefore, nil
	}
	p.compare()
	if p.fate == cutOff {
		return cutBefore, nil
	}
	if list := p.stubs[c.Effect]; len(list) > 0 && !c.Undo {
		p.stubs[c.Effect] = list[1:]
		return noFault, &list[0]
	}
	id := fmt.Sprint(c.Key, c.Undo)
	if _, known := p.seen[id]; !known {
		p.seen[id] = len(p.seen)
	}
	if p.plan.turn != p.turn || p.plan.n != p.seen[id] {
		return noFault, nil
	}
	switch p.plan.fault {
	case cutBefore:
		p.record(c, Call{Cut: true})
	case stopBefore:
		p.stop()
		p.record(c, Call{Err: context.Canceled}) // it was begun, though it does not arrive
	}
	return p.plan.fault, nil
}

// after records how a call has ended.
func (p *process) after(c sagahooks.Call, how Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if differs := p.changed(); c.ReadOnly && differs != "" {
		p.broken = append(p.broken, broken{"an effect that is ReadOnly changes nothing", c.Effect,
			fmt.Sprintf("the world changed in turn %d, in effect %q:%s", p.turn, c.Effect, differs), "take ReadOnly away, and give the effect an Undo"})
	}
	p.record(c, how)
}

// record keeps a call, with which the process ends if it is cut off there.
func (p *process) record(c sagahooks.Call, how Call) {
	how.Turn, how.Effect, how.Key, how.Undo, how.Known, how.Input = p.turn, c.Effect, saga.Key(c.Key), c.Undo, c.Known, c.Input.JSON
	how.hook, how.n = c, p.seen[fmt.Sprint(c.Key, c.Undo)]
	if p.calls = append(p.calls, how); how.Cut {
		p.fate = cutOff
	}
}
