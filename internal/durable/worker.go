package durable

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Times of workers.
const (
	// lookTime is how long a worker waits at most before it asks what is due, and lookPause how long it
	// waits at least between two such questions.
	lookTime  = 5 * time.Second
	lookPause = 20 * time.Millisecond
	// graceTime is how long what runs may go on to its next checkpoint when work ends, and
	// stopTime how long then until it is left to others.
	graceTime = 5 * time.Second
	stopTime  = 5 * time.Second
	// warnPause is how often is logged that sagas cannot be read.
	warnPause = 5 * time.Minute
	// longestOutage bounds the pauses between attempts to reach the store.
	longestOutage = 30 * time.Second
	// forgetTime is how often rows are removed that are not needed any more, and forgetBatch how many at once.
	forgetTime  = 5 * time.Minute
	forgetBatch = 1000
	// beats is how often a lease is renewed before it would be over.
	beats = 3
)

// worker finds the sagas that are due, and drives them.
type worker struct {
	c     *Core
	slots slots

	mu sync.Mutex
	// live is the context of what is driven here; nil before work has begun. stopping: what is under way is
	// handed over. closing: it is cut off.
	live              context.Context
	stopping, closing bool
	held              map[store.ID]*hold
	still             func()        // ends the renewing of leases; nil if nothing is held
	begun             chan struct{} // closed when work has begun
	idle              chan struct{} // has one when nothing is held any more
	look              chan struct{} // has one when something may be due
}

func (w *worker) init(c *Core) {
	w.c, w.held = c, make(map[store.ID]*hold)
	w.begun, w.idle, w.look = make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
	w.slots.workers, w.slots.perPrincipal, w.slots.perTool = max(0, c.Workers), c.PerPrincipal, c.PerTool
	w.slots.quotas, w.slots.tools, w.slots.freed = make(map[string]quota), make(map[string]int), sync.NewCond(&w.slots.mu)
	c.hub.store, c.hub.all, c.hub.waiting = c.Store, w.changed, make(map[store.ID]map[chan struct{}]bool)
}

// changed is called when a saga has changed: if it is not driven here, it may be due.
func (w *worker) changed(id store.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[id] == nil {
		signal(w.look)
	}
}

// Work drives sagas until ctx ends or the store is closed. Then it hands over what is under
// way: at its next checkpoint, or cut off after some seconds. It must not be called twice at a time.
func (c *Core) Work(ctx context.Context) error {
	w := &c.worker
	live, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	w.slots.open(false)
	w.mu.Lock()
	if w.live == nil {
		close(w.begun)
	}
	w.live, w.stopping, w.closing = live, false, false
	w.mu.Unlock()
	var busy sync.WaitGroup
	defer busy.Wait()
	background, stop := context.WithCancel(live)
	defer stop()
	defer c.hub.enter()()
	busy.Go(func() { w.forget(background) })
	err := w.take(ctx, live)
	w.handOver(leave)
	return err
}

// take acquires sagas that are due, as many as there is room for, and has them driven, until ctx ends or the store is closed.
// What they are driven with is live, which ends later: there is time to hand them over.
func (w *worker) take(ctx, live context.Context) error {
	log := w.c.Turns.Log
	warn := rate.Sometimes{Interval: warnPause}
	var outage time.Duration
	for ctx.Err() == nil {
		room := w.slots.await(ctx)
		if room == 0 || !w.canWrite(ctx) { // ctx has ended, or what is taken could not be committed
			_ = sleep(ctx, time.Second)
			continue
		}
		t := w.c.term() // before the store is asked: the leases of what it gives are counted from then
		taken, unreadable, next, err := w.c.rows.take(ctx, w.c.tools(), room, w.c.Lease)
		if unreadable > 0 {
			warn.Do(func() {
				log.ErrorContext(ctx, "sagas cannot be read: they were sealed with a key that is not enabled, by a newer program or one before the first release, or were altered", "sagas", unreadable)
			})
		}
		switch {
		case errors.Is(err, store.ErrClosed):
			return err
		case err != nil && ctx.Err() == nil:
			if outage == 0 {
				log.ErrorContext(ctx, "the ledger cannot be used: sagas do not go on", "error", err)
			}
			outage = min(max(2*outage, time.Second), longestOutage)
			_ = sleep(ctx, outage/2+rand.N(outage/2))
			continue
		case outage > 0 && err == nil:
			log.InfoContext(ctx, "the ledger can be used again")
			outage = 0
		}
		for _, r := range taken {
			w.c.clock.hear(r.Now)
			h := w.c.newHold(live, r, r.Record.Tries)
			h.acquire(t)
			w.receive(h)
		}
		if len(taken) == 0 { // by this process's clock, if that is ahead, next has come already, and await does not wait
			_ = sleep(ctx, lookPause)
		}
		w.await(ctx, t.began, next)
	}
	return ctx.Err()
}

// await waits until something may be due: at next, as far as the store knew when it was asked, or soon after
// something has changed.
func (w *worker) await(ctx context.Context, asked, next time.Time) {
	wait := lookTime
	for {
		left := wait - time.Since(asked)
		if !next.IsZero() {
			left = min(left, next.Sub(w.c.clock.now()))
		}
		if left <= 0 || awaits(ctx, w.look, left) {
			return
		}
		wait = lookPause
	}
}

// receive drives a saga that was taken, has it wait for a slot, or puts it back.
func (w *worker) receive(h *hold) {
	h.share = &share{principal: h.row.Principal, tool: h.row.Tool}
	if h.row.Mode == store.ModeCall {
		h.share = nil
	}
	if !w.enter(h) {
		// It is driven here already: its lease was over, and it finds that out. Until then this process is not
		// to take it again and again, as if it went down with it.
		h.hasty = true
		_ = h.putBack(w.c.Lease)
		return
	}
	if h.share == nil {
		go h.run()
		return
	}
	if pause, ok := w.slots.admit(h.share, h.run); !ok {
		h.hasty = true // else it comes again when the lease is over
		_ = h.putBack(pause)
		w.leave(h)
	}
}

// enter notes that a saga is driven here. It is not if it is driven here already, unless a client's request has
// acquired it, or what has had it has put it to rest, and may not know yet that this is written: then the
// other one does nothing more.
func (w *worker) enter(h *hold) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.held[h.held.ID]
	if old != nil && !h.client && !(h.fromRest && old.held.Fence+1 == h.held.Fence) {
		return false
	}
	w.held[h.held.ID] = h
	if w.still == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w.still = cancel
		go w.renew(ctx)
	}
	h.began = time.Now()
	h.handing.Store(w.stopping && !h.client)
	if w.closing {
		h.stop(errStopping)
	}
	return true
}

func (w *worker) leave(h *hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[h.held.ID] == h {
		delete(w.held, h.held.ID)
	}
	if len(w.held) == 0 {
		signal(w.idle)
		if w.still != nil {
			w.still()
			w.still = nil
		}
	}
}

// release is called when a saga is not driven here any more.
func (w *worker) release(h *hold) {
	w.leave(h)
	if h.share != nil {
		w.slots.leave(h.share, time.Since(h.began))
	}
}

// serves returns the context of what is driven here; ok is false if nothing new is. A call, whose client waits
// here, may go on as long as what was begun before.
func (w *worker) serves(call bool) (live context.Context, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live, w.live != nil && w.live.Err() == nil && !w.closing && (call || !w.stopping)
}

// awaitBegin waits until work has begun, which may be a moment after a server has begun to serve.
func (w *worker) awaitBegin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case <-w.begun:
	case <-ctx.Done():
	}
}

func (w *worker) all() []*hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.held))
}

// renew renews the leases of what is driven here, also of what is being written, until ctx ends.
func (w *worker) renew(ctx context.Context) {
	for sleep(ctx, w.c.Lease/beats) == nil {
		var leases []store.Held
		of := make(map[store.ID]*hold)
		for _, h := range w.all() {
			leases, of[h.held.ID] = append(leases, h.held), h
		}
		t := w.c.term()
		renewing, cancel := context.WithTimeout(ctx, writeTime)
		lost, err := w.c.rows.renew(renewing, leases, w.c.Lease)
		cancel()
		if err != nil {
			continue // the next time, or the next commit
		}
		for _, id := range lost {
			go of[id].sync() // which finds out why
			delete(of, id)
		}
		for _, h := range of {
			h.renewed(t)
		}
	}
}

// cancelled has a saga that is driven here know at once that a client wants it cancelled: it begins nothing more.
func (w *worker) cancelled(ctx context.Context, id store.ID) {
	w.mu.Lock()
	h := w.held[id]
	w.mu.Unlock()
	if h == nil {
		return
	}
	select {
	case h.mutex <- struct{}{}:
		defer h.unlock()
		if !h.rested && !h.lost {
			_ = h.reload()
		}
	case <-ctx.Done(): // what is being written finds it
	}
}

// forget removes rows now and then that are not needed any more.
func (w *worker) forget(ctx context.Context) {
	for sleep(ctx, forgetTime/2+rand.N(forgetTime)) == nil {
		for n := forgetBatch; n == forgetBatch; {
			var err error
			if n, err = w.c.rows.store.Forget(ctx, forgetBatch); err != nil {
				break
			}
		}
	}
}

func (w *worker) handOver(leave func()) {
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	w.slots.open(true)
	for _, h := range w.all() {
		h.handing.Store(!h.client)
	}
	cut := time.AfterFunc(graceTime, func() {
		w.mu.Lock()
		w.closing = true
		w.mu.Unlock()
		for _, h := range w.all() {
			h.stop(errStopping)
		}
	})
	defer cut.Stop()
	left := time.AfterFunc(graceTime+stopTime, leave)
	defer left.Stop()
	for len(w.all()) > 0 {
		<-w.idle
	}
}

// canWrite reports whether what is taken can be written as well. A process that can take sagas and cannot write what it
// has done would lose each, take it again and lose it again, until the saga counts as one that breaks servers. So once
// writes have failed it takes none until one has succeeded: first of what it drives, whose leases may be over.
func (w *worker) canWrite(ctx context.Context) bool {
	p := &w.c.rows.writes
	p.mu.Lock()
	fails, lately := !p.since.IsZero(), time.Since(p.last) < 2*outage
	p.mu.Unlock()
	if !fails {
		return true
	}
	if lately && len(w.all()) > 0 {
		return false
	}
	ctx, cancel := writing(ctx)
	defer cancel()
	_, err := insist(ctx, p, func() (time.Time, error) { return w.c.rows.store.Check(ctx) })
	return err == nil || errors.Is(err, store.ErrClosed)
}
