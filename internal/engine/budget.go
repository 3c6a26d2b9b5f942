package engine

import (
	"context"
	"sync"
	"time"
)

// budget is the context of a turn's code whose time is bounded besides that of the request. While the turn
// waits for what keeps its checkpoints, the time stands still, also for contexts that were derived before.
type budget struct {
	context.Context // the parent

	mu     sync.Mutex
	err    error     // once it has ended
	end    time.Time // unless it waits
	waited time.Time // since when it waits, or zero
	done   chan struct{}
	timer  *time.Timer
	stop   func() bool
}

func newBudget(parent context.Context, d time.Duration) *budget {
	b := &budget{Context: parent, end: time.Now().Add(d), done: make(chan struct{})}
	look := func() { _ = b.Err() }
	b.timer, b.stop = time.AfterFunc(d, look), context.AfterFunc(parent, look)
	return b
}

// finish ends the context. b.mu is held.
func (b *budget) finish(err error) {
	if b.err == nil {
		b.err = err
		close(b.done)
	}
}

// close gives up what the context holds. It ends if it has not ended.
func (b *budget) close() {
	b.timer.Stop()
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(context.Canceled)
}

// wait has the time stand still until its result is called.
func (b *budget) wait() (resume func()) {
	if b == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waited = time.Now()
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.end, b.waited = b.end.Add(time.Since(b.waited)), time.Time{}
		if b.err == nil {
			b.timer.Reset(time.Until(b.end))
		}
	}
}

// Deadline implements context.Context. It may be later when it is asked for again.
func (b *budget) Deadline() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := b.end
	if !b.waited.IsZero() {
		end = end.Add(time.Since(b.waited))
	}
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
	if err := b.Context.Err(); err != nil {
		b.finish(err)
	} else if b.waited.IsZero() && !time.Now().Before(b.end) {
		b.finish(context.DeadlineExceeded)
	}
	return b.err
}
