package postgres

import (
	"hash/fnv"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// A hub knows who in this process waits for what.
type hub struct {
	told atomic.Bool // whether the server tells of changes by other processes

	mu      sync.Mutex
	keys    map[uint64]map[*waiter]struct{} // by the hash of the key
	queues  map[uint64]map[*waiter]struct{} // by the hash of the queue
	waiting int
	came    [2]chan struct{} // each gets something when the first waiter has come
}

// waiter is somebody who waits.
type waiter struct {
	signal chan struct{} // gets something when it is worth while to look
	key    string
	seen   atomic.Uint64 // the revision that a watcher has
	names  []uint64      // the hashes of a taker's queues
	next   atomic.Int64  // when the first of a taker's records is due, by the server's clock
	again  atomic.Bool   // a taker must look even though next has not come
	call   func()        // is called instead of the signal, if there is one
}

// wake tells who waits that it is worth while to look.
func (w *waiter) wake() {
	if w.call != nil {
		w.call()
		return
	}
	poke(w.signal)
}

// hash is a short name for a key or a queue, to tell others of it.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

func (h *hub) init() {
	h.keys, h.queues = map[uint64]map[*waiter]struct{}{}, map[uint64]map[*waiter]struct{}{}
	for i := range h.came {
		h.came[i] = make(chan struct{}, 1)
	}
}

// watcher adds somebody who waits for a record to have another revision than seen, which call
// tells instead of a signal unless it is nil.
func (h *hub) watcher(key string, seen uint64, call func()) *waiter {
	w := &waiter{signal: make(chan struct{}, 1), key: key, call: call}
	w.seen.Store(seen)
	h.mu.Lock()
	defer h.mu.Unlock()
	add(h.keys, hash(w.key), w)
	h.arrived()
	return w
}

// taker adds somebody who waits for any record in some queues.
func (h *hub) taker(queues []string) *waiter {
	w := &waiter{signal: make(chan struct{}, 1)}
	for _, q := range queues {
		w.names = append(w.names, hash(q))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range w.names {
		add(h.queues, name, w)
	}
	h.arrived()
	return w
}

func add(to map[uint64]map[*waiter]struct{}, name uint64, w *waiter) {
	if to[name] == nil {
		to[name] = map[*waiter]struct{}{}
	}
	to[name][w] = struct{}{}
}

func (h *hub) arrived() {
	h.waiting++
	for _, c := range h.came {
		poke(c)
	}
}

// leave removes somebody who waited.
func (h *hub) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
	if w.key != "" || w.names == nil {
		remove(h.keys, hash(w.key), w)
	}
	for _, name := range w.names {
		remove(h.queues, name, w)
	}
}

func remove(from map[uint64]map[*waiter]struct{}, name uint64, w *waiter) {
	if delete(from[name], w); len(from[name]) == 0 {
		delete(from, name)
	}
}

// anybody says whether somebody waits.
func (h *hub) anybody() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting > 0
}

// watched returns the keys that somebody waits for.
func (h *hub) watched() (keys [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.keys {
		last := ""
		for w := range all { // nearly always for one key: others rarely have the same hash
			if len(keys) == 0 || w.key != last {
				keys, last = append(keys, []byte(w.key)), w.key
			}
		}
	}
	return keys
}

// change tells those who wait for the key with this hash.
func (h *hub) change(key uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.keys[key] {
		w.wake()
	}
}

// found tells those who wait for a key that it has come to this revision, unless they know.
func (h *hub) found(key string, rev uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.keys[hash(key)] {
		if w.seen.Load() < rev {
			if w.call != nil {
				w.seen.Store(rev) // one who has a signal says so himself
			}
			w.wake()
		}
	}
}

// due tells those who wait for the queue with this hash when a record of it is due.
func (h *hub) due(queue uint64, wake time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.queues[queue] {
		if w.wakeAt(wake) {
			poke(w.signal)
		}
	}
}

// everybody has all look for themselves, as something may have been missed.
func (h *hub) everybody() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range []map[uint64]map[*waiter]struct{}{h.keys, h.queues} {
		for _, some := range all {
			for w := range some {
				w.again.Store(true)
				w.wake()
			}
		}
	}
}

// forgetNext is for a taker that is about to find out when the next record is due.
func (w *waiter) forgetNext() { w.next.Store(math.MaxInt64) }

// nextWake returns when the first record is due, if that is known.
func (w *waiter) nextWake() (time.Time, bool) {
	next := w.next.Load()
	return time.UnixMicro(next), next != math.MaxInt64
}

// wakeAt has a taker know of a record, and says whether it is due before all that it knew.
func (w *waiter) wakeAt(at time.Time) bool {
	for {
		now := w.next.Load()
		if at.UnixMicro() >= now {
			return false
		}
		if w.next.CompareAndSwap(now, at.UnixMicro()) {
			return true
		}
	}
}

// poke leaves something in a channel that holds one thing.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// changed tells everybody who waits for a record, here and in other processes, that it was
// written.
func (s *store) changed(r *ledger.Record) {
	key := hash(r.Key)
	s.hub.change(key)
	if r.Queue == "" || r.Wake.IsZero() {
		s.tell.add(key, 0, time.Time{})
		return
	}
	queue := hash(r.Queue)
	s.hub.due(queue, r.Wake)
	s.tell.add(key, queue, r.Wake)
}
