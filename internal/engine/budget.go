package engine

import (
	"context"
	"sync"
	"time"
)

// budget is the context of a turn's code whose time is bounded besides that of the request. While the
// turn waits for what keeps its checkpoints, the time stands still: that is not the code's.
type budget struct {
	context.Context // the parent

	done  chan struct{}
	timer *time.Timer
	stop  func() bool // ends the watch on the parent

	mu     sync.Mutex
	err    error     // once it has ended
	end    time.Time // unless it waits
	waited time.Time // since when it waits, or zero
}

func newBudget(parent context.Context, d time.Duration) *budget {
	b := &budget{Context: parent, done: make(chan struct{}), end: time.Now().Add(d)}
	b.timer = time.AfterFunc(d, func() { b.finish(context.DeadlineExceeded) })
	b.stop = context.AfterFunc(parent, func() { b.finish(parent.Err()) })
	return b
}

// finish ends the context.
func (b *budget) finish(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && (err != context.DeadlineExceeded || b.waited.IsZero() || b.Context.Err() != nil) {
		b.err = err
		close(b.done)
	}
}

// close gives up what the context holds. It ends if it has not ended.
func (b *budget) close() {
	b.stop()
	b.timer.Stop()
	b.finish(context.Canceled)
}

// wait has the time stand still until its result is called.
func (b *budget) wait() (resume func()) {
	if b == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	b.waited = time.Now()
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.end, b.waited = b.end.Add(time.Since(b.waited)), time.Time{}
		b.timer.Reset(time.Until(b.end))
	}
}

// Deadline implements context.Context. It may be later when it is asked for again.
func (b *budget) Deadline() (time.Time, bool) {
	b.mu.Lock()
	end := b.end
	if !b.waited.IsZero() {
		end = end.Add(time.Since(b.waited))
	}
	b.mu.Unlock()
	if d, ok := b.Context.Deadline(); ok && d.Before(end) {
		end = d
	}
	return end, true
}

// Done implements context.Context.
func (b *budget) Done() <-chan struct{} { return b.done }

// Err implements context.Context.
func (b *budget) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
