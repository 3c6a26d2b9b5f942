package tasks

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// Times of workers.
const (
	// lookTime is how often a worker finds out which tools and revisions there are.
	lookTime = time.Minute
	// graceTime is how long what runs may go on to its next checkpoint when work ends, and
	// stopTime how long then until it is left to others.
	graceTime = 5 * time.Second
	stopTime  = 5 * time.Second
	// longestOutage bounds the pauses between attempts to reach the ledger.
	longestOutage = 30 * time.Second
)

// Work drives tasks until ctx ends or the store is closed. Then it hands over what is under
// way: at its next checkpoint, or cut off after some seconds. It must not be called twice at a
// time.
func (m *Manager) Work(ctx context.Context) error {
	c := &m.crew
	live, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	m.sync(ctx)
	c.begin(live)
	var busy sync.WaitGroup
	renewing, stopRenewing := context.WithCancel(live)
	busy.Go(func() { m.renew(renewing) })
	err := ctx.Err()
	if m.CallsOnly {
		<-ctx.Done()
	} else {
		err = m.take(ctx, live)
	}
	m.handOver(leave)
	stopRenewing()
	busy.Wait()
	return err
}

// take takes tasks as long as there is room.
func (m *Manager) take(ctx, live context.Context) error {
	c, log := &m.crew, m.Turns.Log
	var announced, targets []records.Target
	var looked, warned time.Time
	var outage time.Duration
	for ctx.Err() == nil {
		var list []*records.TaskEntry
		err := func() (err error) {
			if announced == nil || time.Since(looked) >= lookTime {
				own := m.Turns.TargetsOf(func(*engine.Program) bool { return true })
				switch err := m.book.Announce(ctx, own); {
				case errors.Is(err, records.ErrUnreadable):
					log.ErrorContext(ctx, "the ledger's list of tools cannot be read: tasks of revisions that are not served here may not be ended", "error", err)
				case err != nil:
					return err
				}
				announced = own
				if targets, err = m.Turns.Readable(ctx, own); err != nil {
					return err
				}
				looked = time.Now()
			}
			m.sync(ctx)
			if len(targets) == 0 {
				return sleep(ctx, lookTime)
			}
			room := c.room()
			for ; room <= 0; room = c.room() {
				select {
				case <-c.freed:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			taking, cancel := context.WithCancel(ctx)
			defer cancel()
			m.writing.await(ctx, cancel)
			looking := time.AfterFunc(lookTime, cancel)
			defer looking.Stop()
			var unreadable int
			list, unreadable, err = m.book.TakeTasks(taking, targets, room, m.lease())
			if unreadable > 0 && time.Since(warned) >= lookTime {
				warned = time.Now()
				log.ErrorContext(ctx, "tasks cannot be read: they were sealed with a key that is not enabled, or by a newer program, or were altered", "tasks", unreadable)
			}
			if taking.Err() != nil {
				return nil
			}
			return err
		}()
		if errors.Is(err, ledger.ErrClosed) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			if outage == 0 {
				log.ErrorContext(ctx, "the ledger cannot be used: tasks do not go on", "error", err)
			}
			outage = min(max(2*outage, time.Second), longestOutage)
			_ = sleep(ctx, outage/2+rand.N(outage/2))
			continue
		}
		if outage > 0 && ctx.Err() == nil {
			log.InfoContext(ctx, "the ledger can be used again")
			outage = 0
		}
		for _, e := range list {
			m.receive(live, e)
		}
	}
	return ctx.Err()
}

// receive begins a task that was taken, has it wait, or puts it back.
func (m *Manager) receive(live context.Context, e *records.TaskEntry) {
	r := m.newRun(live, e, e.Epoch())
	pause, admitted := m.crew.admit(r, m.now())
	if admitted {
		return
	}
	r.lock()
	defer r.unlock()
	_ = r.once(func(t *records.Task) []Event { // else it comes again after the lease
		r.rest(t, t.State, m.now().Add(pause))
		return nil
	})
}

// handOver ends the work.
func (m *Manager) handOver(leave func()) {
	c := &m.crew
	c.mu.Lock()
	c.open, c.stopping = false, true
	c.advance()
	c.mu.Unlock()
	cut := time.AfterFunc(graceTime, func() {
		c.mu.Lock()
		c.closing = true
		c.mu.Unlock()
		for _, r := range c.all() {
			r.cut(errStopping)
		}
	})
	defer cut.Stop()
	left := time.AfterFunc(graceTime+stopTime, leave)
	defer left.Stop()
	for _, r := range c.all() {
		r.lock()
		r.handing = true
		r.unlock()
	}
	for !c.idle() {
		<-c.empty
	}
}

// Settle waits until the calls that were cancelled and run here have ended, or until ctx ends: a
// process that has answered its client undoes what that call did before it goes.
func (m *Manager) Settle(ctx context.Context) {
	cancelled := func(r *run) bool {
		e := r.shown.newestEntry()
		return e != nil && e.Call && e.Cancelled && e.State != records.TaskEnded
	}
	for slices.ContainsFunc(m.crew.all(), cancelled) && sleep(ctx, settlePause) == nil {
	}
}

// settlePause is how often it is looked whether they have.
const settlePause = 5 * time.Millisecond

// renew keeps the leases of what is held here.
func (m *Manager) renew(ctx context.Context) {
	for sleep(ctx, m.Lease/6) == nil {
		lease := m.lease()
		m.crew.sweep()
		if _, sure := m.time(); !sure {
			asking, cancel := context.WithTimeout(ctx, m.Lease/6)
			m.sync(asking)
			cancel()
		}
		for _, r := range m.crew.all() {
			select {
			case r.mutex <- struct{}{}:
			default:
				continue // it is being written
			}
			// One that was put to rest is nobody's, though its run may not have gone yet: to take
			// it again would have answers to it come to nothing.
			if r.lost || r.isUnwritten() || r.e.State == records.TaskEnded || !r.e.Taken() || r.until.Sub(m.now()) > lease*2/3 {
				r.unlock()
				continue
			}
			go func() {
				defer r.unlock()
				if err := r.once(unchanged); errors.Is(err, records.ErrConflict) { // a client's
					_ = r.attempt(unchanged, true)
				}
			}()
		}
	}
}
