package tasks

import (
	"context"
	"sync"
	"time"
)

// crew are the workers of a process, and what they work on. Who has taken a task has a place
// for it, or waits for one.
type crew struct {
	workers, perPrincipal int
	perTool               map[string]int

	mu sync.Mutex
	// open: work is done. stopping: what is under way is handed over.
	open, stopping bool
	live           context.Context // of what is worked on; ends when it is left to others
	busy           int             // places that are in use
	calls          int             // tasks that go on here without a place
	closing        bool            // nothing more is begun here, as what runs is cut off
	held           map[string]*run // all tasks that are held here, by their records' names
	ready          []*run          // those that wait for a place
	shares         map[string]*share
	tools          map[string]int // places by tool
	pace           time.Duration  // how long a task takes, as a moving average

	made  time.Time     // when the manager was
	begun chan struct{} // closed when work has begun for the first time
	freed chan struct{} // has one when a place has become free
	empty chan struct{} // has one when nothing is held any more
}

// share is what a principal has of the places.
type share struct {
	busy, ready int
	next        time.Time // when the next of its tasks may be taken that found no place
}

func (c *crew) init(workers, perPrincipal int, perTool map[string]int) {
	c.workers, c.perPrincipal, c.perTool = workers, perPrincipal, perTool
	c.held, c.shares, c.tools = make(map[string]*run), make(map[string]*share), make(map[string]int)
	c.made, c.begun = time.Now(), make(chan struct{})
	c.freed, c.empty = make(chan struct{}, 1), make(chan struct{}, 1)
}

// beginTime is how long after a manager was made its work is waited for: a server may take calls
// a moment before it works.
const beginTime = time.Second

// begin has work be done from now on, with live for what is worked on.
func (c *crew) begin(live context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		close(c.begun)
	}
	c.open, c.stopping, c.closing, c.live = true, false, false, live
}

// awaitBegin waits until work has begun, if it may be about to.
func (c *crew) awaitBegin(ctx context.Context) {
	select {
	case <-c.begun:
		return
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, c.made.Add(beginTime))
	defer cancel()
	select {
	case <-c.begun:
	case <-ctx.Done():
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fits reports whether there is a place for a task.
func (c *crew) fits(principal, tool string) bool {
	if c.busy >= c.workers {
		return false
	}
	if s := c.shares[principal]; s != nil && s.busy >= c.perPrincipal {
		return false
	}
	most, limited := c.perTool[tool]
	return !limited || c.tools[tool] < most
}

func (c *crew) share(principal string) *share {
	s := c.shares[principal]
	if s == nil {
		s = new(share)
		c.shares[principal] = s
	}
	return s
}

func (c *crew) occupy(principal, tool string) {
	c.busy++
	c.share(principal).busy++
	c.tools[tool]++
}

func (c *crew) leave(principal, tool string, now time.Time) {
	c.busy--
	c.share(principal).busy--
	if c.tools[tool]--; c.tools[tool] == 0 {
		delete(c.tools, tool)
	}
	c.tidy(principal, now)
	signal(c.freed)
	if c.busy == 0 {
		signal(c.empty)
	}
}

// tidy forgets a principal of which there is nothing to be known.
func (c *crew) tidy(principal string, now time.Time) {
	if s := c.shares[principal]; s != nil && s.busy == 0 && s.ready == 0 && !s.next.After(now) {
		delete(c.shares, principal)
	}
}

// reserve occupies a place for a task that is to be taken at once, if there is one and nobody
// waits for it.
func (c *crew) reserve(principal, tool string) (live context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || c.stopping || !c.fits(principal, tool) {
		return nil, false
	}
	if s := c.shares[principal]; s != nil && s.ready > 0 {
		return nil, false
	}
	c.occupy(principal, tool)
	return c.live, true
}

// release gives a place back that was not needed.
func (c *crew) release(principal, tool string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(principal, tool, time.Now())
	c.advance()
}

// answered lets a call go on here, without a place, if work is done here.
func (c *crew) answered() (live context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || c.stopping {
		return nil, false
	}
	c.calls++
	return c.live, true
}

// unanswered undoes answered.
func (c *crew) unanswered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	signal(c.empty)
}

// enter enters a call whose record is about to be made, unless there is another task of that
// record (then free is false), or no more work is done here (held is false).
func (c *crew) enter(r *run) (live context.Context, held, free bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.held[r.key]; old != nil && old != r {
		return nil, false, false
	}
	if c.live == nil || c.live.Err() != nil || c.closing {
		return nil, false, true
	}
	c.held[r.key] = r
	r.handing = c.stopping
	return c.live, true, true
}

// works reports whether what has begun here can go on here.
func (c *crew) works() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live != nil && c.live.Err() == nil && !c.closing
}

// succeed enters a call that goes on after an answer, now that it is written down. Its question was
// there for its client before the run that had asked it could leave: r takes the place of that.
func (c *crew) succeed(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[r.key] = r
	r.handing = c.stopping
	if c.closing {
		r.cut(errStopping)
	}
}

// remove undoes enter.
func (c *crew) remove(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[r.key] == r {
		delete(c.held, r.key)
		signal(c.empty)
	}
}

// hold enters a task that has a place, and begins it.
func (c *crew) hold(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[r.key] = r
	r.begin(c.stopping)
}

// admit enters a task that was taken. If it must wait it does so here, but not too many: else
// pause says for how long it is to be put back.
func (c *crew) admit(r *run, now time.Time) (pause time.Duration, admitted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	principal, tool := r.principal, r.tool
	if before := c.held[r.key]; before != nil {
		switch rests, known := before.rests(); {
		case !known:
			return shortPutBack, false
		case !rests:
			// This process was too slow to renew its lease, and what it began then is still at it. To
			// keep the task for that would count as one more server that went down with it.
			return longPutBack, false
		} // else a client was faster than what has just come to its end here
	}
	if c.fits(principal, tool) && !c.stopping {
		c.occupy(principal, tool)
		c.held[r.key] = r
		r.begin(false)
		return 0, true
	}
	s := c.share(principal)
	if !c.stopping && s.ready < c.perPrincipal && len(c.ready) < c.workers {
		s.ready++
		c.held[r.key] = r
		c.ready = append(c.ready, r)
		return 0, true
	}
	// It comes again when it could have its turn, if each of the principal's takes as long as
	// tasks take.
	s.next = later(s.next, now).Add(max(c.pace, time.Millisecond) / time.Duration(c.perPrincipal))
	return min(max(s.next.Sub(now), shortPutBack), longPutBack), false
}

// How long a task is put back for which there is no place.
const (
	shortPutBack = 50 * time.Millisecond
	longPutBack  = 5 * time.Second
)

// advance begins those that wait and have a place now. The lock is held.
func (c *crew) advance() {
	for i := 0; i < len(c.ready); {
		r := c.ready[i]
		if !c.stopping && !c.fits(r.principal, r.tool) {
			i++
			continue
		}
		c.ready = append(c.ready[:i], c.ready[i+1:]...)
		c.share(r.principal).ready--
		c.occupy(r.principal, r.tool)
		r.begin(c.stopping)
	}
}

// end is called when a task is not held any more.
func (c *crew) end(r *run, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[r.key] == r {
		delete(c.held, r.key)
	}
	if r.call {
		if r.counted {
			c.calls--
		}
		signal(c.empty)
		return
	}
	c.pace += (took - c.pace) / 16
	c.leave(r.principal, r.tool, time.Now())
	c.advance()
}

// idle reports whether nothing is held any more, nor is about to be.
func (c *crew) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy == 0 && c.calls == 0 && len(c.held) == 0
}

// sweep forgets principals of which there is nothing to be known any more.
func (c *crew) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for principal := range c.shares {
		c.tidy(principal, now)
	}
}

// room is for how many tasks there is a place.
func (c *crew) room() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers - c.busy
}

// find returns the run of a task that is held here, or nil.
func (c *crew) find(key string) *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[key]
}

// all returns what is held here.
func (c *crew) all() []*run {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*run, 0, len(c.held))
	for _, r := range c.held {
		list = append(list, r)
	}
	return list
}
