package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// Nothing can stop code that ignores its context. So where the time of an author's code is
// bounded the code has a goroutine of its own, which is left alone when the time is over. What it
// still does with its turn is refused, and what it returns counts for nothing. An effect that it was
// performing has an unknown outcome, as if the process had died.

const (
	// grace is how long code may take to return when its context has ended by its deadline. It is for
	// saying what became of an effect: the turn has timed out all the same.
	grace = time.Second
	// maxHanging is how many calls of one program's code may hang at a time. Each holds a goroutine
	// and what it has in memory, so from then on no turn of the program is begun. As many of Undo may
	// hang besides: what a turn did that hangs is to be undone.
	maxHanging = 16
)

// ErrHanging is why no code of a program is called at present. Nothing is lost: elsewhere, or later,
// the same turn can be taken.
var ErrHanging = errors.New("too many calls of the tool's code hang, which ignores its context")

// Hang is a call of an author's code that did not return in time.
type Hang struct {
	// Tool is the program's name, Doing what hangs.
	Tool, Doing string
	// Hanging is how many calls of the program's code hang now.
	Hanging int
	// Returned: it has returned after all, when it had taken that long.
	Returned bool
	Took     time.Duration
}

// HangError says that code was left alone that did not return in time. It is a
// [context.DeadlineExceeded].
type HangError struct{ Tool, Doing string }

// Error implements error.
func (e *HangError) Error() string {
	return fmt.Sprintf("tool %q: %s ignores its context and did not return in time", e.Tool, e.Doing)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *HangError) Unwrap() error { return context.DeadlineExceeded }

var (
	errOver   = errors.New("the turn is over: it took too long and was given up")
	errUndos  = errors.New("not tried, as too many calls of the tool's Undos hang")
	errGoexit = errors.New("runtime.Goexit")
)

// Hanging returns the names of programs of which calls hang.
func (s *Registry) Hanging() (names []string) {
	for _, revisions := range s.byTarget {
		if slices.ContainsFunc(revisions, func(t *Program) bool { return t.hanging.Load()+t.undosHanging.Load() > 0 }) {
			names = append(names, revisions[0].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OnHang has f called for each call that hangs, and when it has returned after all.
func (s *Registry) OnHang(f func(Hang)) { s.onHang.Store(&f) }

func (t *Program) told(h Hang) {
	if t.onHang == nil { // it is in no registry
		return
	}
	if f := t.onHang.Load(); f != nil {
		h.Tool, h.Hanging = t.Name, int(t.hanging.Load()+t.undosHanging.Load())
		(*f)(h)
	}
}

// within is a call of code whose time is bounded.
type within[T any] struct {
	v    T
	err  error
	done chan struct{}
	left atomic.Bool // it has ended, or was left alone, whichever was first
}

// Within calls code of an author's, of the program t, and waits for it until the deadline of ctx, if
// that has one, and a moment more. Then it fails with a *[HangError], and from some of these on with
// [ErrHanging]. f must share nothing with its caller that may not be used concurrently. A panic is a
// *[PanicError].
func Within[T any](ctx context.Context, t *Program, doing func() string, f func() (T, error)) (v T, err error) {
	if t.hanging.Load() >= maxHanging {
		return v, ErrHanging
	}
	return callWithin(ctx, t, &t.hanging, doing, f)
}

func callWithin[T any](ctx context.Context, t *Program, hanging *atomic.Int32, doing func() string, f func() (T, error)) (v T, err error) {
	until, bounded := ctx.Deadline()
	if !bounded {
		err = Protect(func() (err error) {
			v, err = f()
			return err
		})
		return v, err
	}
	c := &within[T]{done: make(chan struct{})}
	go c.call(t, hanging, doing, f)
	timer := time.NewTimer(time.Until(until) + grace)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-c.done:
			return c.v, c.err
		case <-timer.C:
		}
		until, _ = ctx.Deadline() // it may be later now: see budget
		left := time.Until(until) + grace
		if waiting = left > 0; waiting {
			timer.Reset(left)
		}
	}
	hanging.Add(1)
	if !c.left.CompareAndSwap(false, true) {
		hanging.Add(-1)
		<-c.done
		return c.v, c.err
	}
	h := &HangError{t.Name, doing()}
	t.told(Hang{Doing: h.Doing})
	return v, h
}

func (c *within[T]) call(t *Program, hanging *atomic.Int32, doing func() string, f func() (T, error)) {
	began := time.Now()
	c.err = &PanicError{Value: errGoexit} // unless f returns or panics
	defer func() {
		if v := recover(); v != nil {
			c.err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if c.left.CompareAndSwap(false, true) {
			close(c.done)
			return
		}
		hanging.Add(-1)
		t.told(Hang{Doing: doing(), Returned: true, Took: time.Since(began)})
	}()
	c.v, c.err = f()
}

// leave ends a turn whose code hangs, and returns the turn as it is then: what the code has begun with
// it is done, or has an unknown outcome, and whatever it does next is refused.
func (tc *Turn) leave() *Turn {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	tc.over.Store(true)
	rest := &Turn{
		Context: tc.Context, mu: make(lock, 1), outer: tc.outer, ID: tc.ID, Now: tc.Now, Written: tc.Written, Step: tc.Step,
		program: tc.program, client: tc.client, held: tc.held, lost: tc.lost, acting: tc.acting, undoing: tc.undoing, halted: tc.halted,
	}
	log := *tc.log
	log.used, log.records = nil, make([]*EffectRecord, len(tc.log.records))
	for i, r := range tc.log.records {
		mine := *r
		log.records[i] = &mine
	}
	rest.log = &log
	if tc.saves != nil {
		saves := *tc.saves
		rest.saves = &saves
	}
	return rest
}

// doing says what the turn's code is at.
func (tc *Turn) doing() string {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	text := fmt.Sprintf("step function %q", tc.Step)
	if n := len(tc.log.records); n > 0 && tc.log.records[n-1].Unknown() && tc.log.records[n-1].Out.JSON == nil {
		text += fmt.Sprintf(", effect %q,", tc.log.records[n-1].name)
	}
	return text
}

// ended is why the code can do nothing more with its turn; nil if it can.
func (tc *Turn) ended() error {
	if tc.over.Load() {
		return errOver
	}
	return tc.latched
}
