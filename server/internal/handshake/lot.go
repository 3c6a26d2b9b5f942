package handshake

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// lot is where streams are parked. When there is no room, the one that was parked first gives
// way: its client comes back and reads on, while a call that was refused would be lost.
type lot struct {
	mu     sync.Mutex
	closed bool
	places map[*parked]*list.Element
	oldest list.List // of *parked, the first to come first
	// session has one of those of each session, and owned how many are of each account.
	session map[tokens.ID]*parked
	owned   map[account]int
	tended  bool          // by a goroutine
	over    chan struct{} // closed when the lot is
	changed []*parked     // those to be looked at, by so many goroutines
	looking int
}

const (
	// tendEvery is how often parked streams are looked after. Not more than so many goroutines
	// do that, and as many look whether they have changed.
	tendEvery = 5 * time.Second
	tenders   = 16
	// parkedPer is how many streams may be parked for each session that may be in memory.
	parkedPer = 2
)

// enter parks a stream, or reports that the server stops.
func (l *lot) enter(p *parked) bool {
	p.notified(func() { l.look(p) })
	l.mu.Lock()
	if l.closed || p.d.Draining.Err() != nil && p.canLeave {
		l.mu.Unlock()
		p.stop()
		return false
	}
	if l.places == nil {
		l.places, l.session, l.owned = make(map[*parked]*list.Element), make(map[tokens.ID]*parked), make(map[account]int)
		l.over = make(chan struct{})
	}
	limits := &p.d.Limits
	var out []*parked
	if p.account != "" && l.owned[p.account] >= parkedPer*limits.MaxSessionsPerPrincipal {
		out = append(out, l.first(func(q *parked) bool { return q.account == p.account && q.canLeave }))
	} else if len(l.places) >= parkedPer*limits.MaxSessions {
		out = append(out, l.first(func(q *parked) bool { return q.canLeave }))
	}
	l.places[p] = l.oldest.PushBack(p)
	p.sibling = l.session[p.agreed.id]
	l.session[p.agreed.id] = p
	if p.account != "" {
		l.owned[p.account]++
	}
	if !l.tended {
		l.tended = true
		p.d.sessions.run(l.tend)
	}
	l.mu.Unlock()
	for _, q := range out {
		if q != nil {
			l.hangUp(q, stopRetry)
		}
	}
	l.look(p) // it may have changed before
	return true
}

// look has a stream be looked at, which is read on if there is something to read.
func (l *lot) look(p *parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.queued || l.closed || l.places[p] == nil {
		return
	}
	p.queued = true
	l.changed = append(l.changed, p)
	if l.looking == tenders {
		return
	}
	l.looking++
	p.d.sessions.run(func() {
		for p := l.next(); p != nil; p = l.next() {
			switch something, err := p.look(); {
			case err != nil:
				time.AfterFunc(unparkPause, func() { l.look(p) })
			case something:
				l.unpark(p)
			}
		}
	})
}

// next returns one to be looked at; nil if there is none.
func (l *lot) next() *parked {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.changed) == 0 || l.closed {
		l.changed = nil
		l.looking--
		return nil
	}
	p := l.changed[0]
	l.changed[0] = nil
	l.changed = l.changed[1:]
	p.queued = false
	return p
}

// unpark reads on.
func (l *lot) unpark(p *parked) {
	conn := l.leave(p)
	if conn == nil {
		return
	}
	p.d.sessions.run(func() { p.readOn(conn) })
}

// first returns the one of some kind that was parked first, or nil.
func (l *lot) first(is func(*parked) bool) *parked {
	for e := l.oldest.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*parked); is(p) {
			return p
		}
	}
	return nil
}

// leave takes a stream out, and returns its connection: nil if somebody else has done so.
func (l *lot) leave(p *parked) *wire.Detached {
	l.mu.Lock()
	e := l.places[p]
	if e != nil {
		l.oldest.Remove(e)
		delete(l.places, p)
		if l.owned[p.account]--; l.owned[p.account] <= 0 {
			delete(l.owned, p.account)
		}
		l.unlink(p)
	}
	l.mu.Unlock()
	if e == nil {
		return nil
	}
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	conn := p.conn
	p.conn = nil
	return conn
}

func (l *lot) unlink(p *parked) {
	first := l.session[p.agreed.id]
	switch {
	case first != p:
		for first.sibling != p {
			first = first.sibling
		}
		first.sibling = p.sibling
	case p.sibling != nil:
		l.session[p.agreed.id] = p.sibling
	default:
		delete(l.session, p.agreed.id)
	}
}

// hangUp ends a stream; see [parked.hangUp].
func (l *lot) hangUp(p *parked, retry time.Duration) {
	if conn := l.leave(p); conn != nil {
		p.hangUp(conn, retry)
	}
}

// all returns those of a session, or all.
func (l *lot) all(id *tokens.ID) (list []*parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != nil {
		for p := l.session[*id]; p != nil; p = p.sibling {
			list = append(list, p)
		}
		return list
	}
	for e := l.oldest.Front(); e != nil; e = e.Next() {
		list = append(list, e.Value.(*parked))
	}
	return list
}

// agreed returns a session that has streams parked, or nil.
func (l *lot) agreed(id tokens.ID) *agreed {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.session[id]; p != nil {
		return p.agreed
	}
	return nil
}

// sessions returns those that have streams parked.
func (l *lot) sessions() []tokens.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.session))
}

// end ends those of a session that has ended, and their tasks.
func (l *lot) end(id tokens.ID) {
	for _, p := range l.all(&id) {
		conn := l.leave(p)
		if conn == nil {
			continue
		}
		p.d.sessions.run(func() {
			p.hangUp(conn, 0)
			c := call{handshake: p.d, Exchange: &dialect.Exchange{Principal: p.principal}}
			c.giveUp(context.Background(), p.task)
		})
	}
}

// drain has the clients come back elsewhere that can. The others are told that the server stops.
func (l *lot) drain() {
	l.each(func(p *parked) {
		if p.canLeave {
			l.hangUp(p, stopRetry)
		} else {
			l.unpark(p)
		}
	})
}

// each does something with each stream, with all at once: to write to a client that does not read
// takes until that is given up, and others wait for nobody's client.
func (l *lot) each(do func(*parked)) {
	var all sync.WaitGroup
	for _, p := range l.all(nil) {
		all.Go(func() { do(p) })
	}
	all.Wait()
}

// Parked returns how many streams are parked.
func (d *handshake) Parked() int {
	l := &d.sessions.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.places)
}

// ParkAfter has streams parked that have had nothing to carry for so long. It is for tests, before
// there are sessions.
func (d *handshake) ParkAfter(wait time.Duration) { d.parkAfter = wait }

// Tend looks after the streams that are parked as if it were that time. It is for tests.
func (d *handshake) Tend(now time.Time) {
	for _, p := range d.sessions.lot.all(nil) {
		p.tend(now)
	}
}

// close ends all.
func (l *lot) close() {
	l.mu.Lock()
	if !l.closed && l.over != nil {
		close(l.over)
	}
	l.closed = true
	l.mu.Unlock()
	l.each(func(p *parked) { l.hangUp(p, 0) })
}

// tend looks after those that are parked, until none is.
func (l *lot) tend() {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.over:
			return
		case <-tick.C:
		}
		now := time.Now()
		next := make(chan *parked)
		var group sync.WaitGroup
		for range tenders {
			group.Go(func() {
				for p := range next {
					p.tend(now)
				}
			})
		}
		for _, p := range l.all(nil) {
			next <- p
		}
		close(next)
		group.Wait()
		l.mu.Lock()
		if len(l.places) == 0 {
			l.tended = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}
