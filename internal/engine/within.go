package engine

import (
	"context"
	"errors"
	"fmt"
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
	errOver  = errors.New("the turn is over: it took too long and was given up")
	errEnded = errors.New("the tool's code has ended")
	errLate  = errors.New("its time is over") // of within alone
	errUndos = errors.New("not tried, as too many calls of the tool's Undos hang")
	exited   = &PanicError{Value: errors.New("runtime.Goexit")}
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

// Within calls code of an author's, of the program t, and waits for it until the deadline of ctx, if
// that has one, and a moment more. Then it fails with a *[HangError], and from some of these on with
// [ErrHanging]. f must share nothing with its caller that may not be used concurrently. A panic is a
// *[PanicError].
func Within[T any](ctx context.Context, t *Program, what string, f func() (T, error)) (T, error) {
	var none T
	if t.hanging.Load() >= maxHanging {
		return none, ErrHanging
	}
	v := new(T) // of the code alone if that is left alone
	err := t.within(ctx, &t.hanging, func() string { return what }, func() (err error) {
		*v, err = f()
		return err
	})
	if errors.As(err, new(*HangError)) {
		return none, err
	}
	return *v, err
}

// within is Within for what is counted apart. doing says what the code is at.
func (t *Program) within(ctx context.Context, hanging *atomic.Int32, doing func() string, f func() error) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return Protect(f)
	}
	began, ended := time.Now(), make(chan error, 2) // a call ends once, and its time once
	until, _ := ctx.Deadline()
	timer := time.AfterFunc(time.Until(until)+grace, func() { ended <- errLate })
	defer timer.Stop()
	var left atomic.Bool // it has ended, or was left alone, whichever was first
	go func() {
		err := error(exited) // unless it returns or panics
		defer func() {
			if v := recover(); v != nil {
				err = recovered(v)
			}
			if left.CompareAndSwap(false, true) {
				ended <- err
				return
			}
			hanging.Add(-1)
			t.told(Hang{Doing: doing(), Returned: true, Took: time.Since(began)})
		}()
		err = f()
	}()
	for {
		if err := <-ended; err != errLate {
			return err
		}
		until, _ = ctx.Deadline() // it may be later now, as a turn waits for its checkpoints
		if more := time.Until(until) + grace; more > 0 {
			timer.Reset(more)
			continue
		}
		hanging.Add(1)
		if !left.CompareAndSwap(false, true) {
			hanging.Add(-1)
			return <-ended // it ends just now
		}
		h := &HangError{t.Name, doing()}
		t.told(Hang{Doing: h.Doing})
		return h
	}
}

// leave ends a turn whose code hangs, and returns the turn as it is then: what the code has begun with
// it is done, or has an unknown outcome, and whatever it does next is refused.
func (tc *Turn) leave() *Turn {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	tc.over = errOver
	rest := &Turn{
		Context: tc.Context, Call: tc.Call, mu: make(lock, 1), limit: tc.limit, Written: tc.Written, Step: tc.Step,
		program: tc.program, halted: tc.halted, latched: tc.latched,
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
	if i := slices.IndexFunc(tc.log.records, func(r *EffectRecord) bool { return r.Unknown() && r.Out.JSON == nil }); i >= 0 {
		text += fmt.Sprintf(", effect %q,", tc.log.records[i].name)
	}
	return text
}
