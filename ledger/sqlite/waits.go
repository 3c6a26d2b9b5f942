package sqlite

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// watchPoll is how often to look whether other processes have changed something, while
	// anybody watches a record.
	watchPoll = 25 * time.Millisecond
	// takePoll is the same while somebody only waits for records that are due.
	takePoll = 45 * time.Millisecond
	// quietPoll is instead of takePoll when nobody has written for some seconds: servers wait
	// all the time, so it has to cost next to nothing.
	quietPoll = 100 * time.Millisecond
	// quietAfter is how long that is.
	quietAfter = 2 * time.Second
	// never is how long to sleep when nobody waits.
	never = time.Hour
)

// news are about a record that this process has changed.
type news struct {
	key, queue string
	rev        uint64
	wake       int64 // microseconds; only with a queue
}

// waits knows who waits for what, and wakes them.
type waits struct {
	hurry chan struct{} // tells the writer that somebody has begun to wait
	stale chan struct{} // tells [store.findNews] that other processes have changed something
	ended chan struct{} // closed when that has ended

	mu     sync.Mutex
	topics map[string]*topic
	takers map[*taker]struct{}
}

// topic is a record that is watched.
type topic struct {
	rev      uint64 // the newest that is known, 0 if none
	watchers map[bell]struct{}
	calls    []*func() // of [store.Notify]
}

// taker waits for records that are due.
type taker struct {
	bell
	queues map[string]bool
	until  int64 // when it looks again by itself, in microseconds
}

// bell wakes one who waits. It remembers that it was rung.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

func newWaits() *waits {
	return &waits{
		hurry: newBell(), stale: newBell(), ended: make(chan struct{}),
		topics: make(map[string]*topic), takers: make(map[*taker]struct{}),
	}
}

// interval is how long the writer may sleep until it looks for changes by others. Quiet says
// that there were none lately.
func (w *waits) interval(quiet bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.topics) > 0:
		return watchPoll
	case len(w.takers) == 0:
		return never
	case quiet:
		return quietPoll
	}
	return takePoll
}

// watch returns what rings when the record may have changed, and what ends that.
func (w *waits) watch(key string) (b bell, end func()) {
	b = newBell()
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.topic(key)
	if t.watchers == nil {
		t.watchers = make(map[bell]struct{})
	}
	t.watchers[b] = struct{}{}
	return b, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(t.watchers, b)
		w.drop(key, t)
	}
}

// notify has changed be called when the record may have another revision than rev.
func (w *waits) notify(key string, rev uint64, changed func()) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.topic(key)
	t.rev = max(t.rev, rev)
	t.calls = append(t.calls, &changed)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		t.calls = slices.DeleteFunc(t.calls, func(f *func()) bool { return f == &changed })
		w.drop(key, t)
	}
}

// topic returns a record that is to be watched. The waits are locked, as for drop.
func (w *waits) topic(key string) *topic {
	t := w.topics[key]
	if t == nil {
		t = new(topic)
		w.topics[key] = t
	}
	bell(w.hurry).ring()
	return t
}

// drop forgets a record that nobody watches any more.
func (w *waits) drop(key string, t *topic) {
	if len(t.watchers)+len(t.calls) == 0 && w.topics[key] == t {
		delete(w.topics, key)
	}
}

// saw notes what one who watches has loaded. The others are told if it is newer than what
// was known, since from now on it is not news.
func (w *waits) saw(key string, rev uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.topics[key]; t != nil && rev > t.rev {
		t.tell(rev)
	}
}

func (t *topic) tell(rev uint64) {
	t.rev = rev
	for b := range t.watchers {
		b.ring()
	}
	for _, f := range t.calls {
		(*f)()
	}
}

// take returns what rings when records may be due earlier than it expects.
func (w *waits) take(queues []string) (t *taker, end func()) {
	t = &taker{bell: newBell(), queues: make(map[string]bool), until: math.MaxInt64}
	for _, q := range queues {
		t.queues[q] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takers[t] = struct{}{}
	bell(w.hurry).ring()
	return t, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.takers, t)
	}
}

// expect sets when a taker looks again by itself.
func (w *waits) expect(t *taker, until int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.until = until
}

// tell wakes those whom changes by this process concern.
func (w *waits) tell(list []news) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range list {
		if t := w.topics[n.key]; t != nil {
			t.tell(n.rev)
		}
		for t := range w.takers {
			if t.queues[n.queue] && n.wake < t.until {
				t.ring()
			}
		}
	}
}

// tellAll says that another process has changed something, or that the store has failed.
func (w *waits) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.topics) > 0 {
		bell(w.stale).ring()
	}
	for t := range w.takers {
		t.ring()
	}
}

// watched lists the records that are watched, with what is known of them.
func (w *waits) watched() map[string]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make(map[string]uint64, len(w.topics))
	for key, t := range w.topics {
		list[key] = t.rev
	}
	return list
}

// found wakes those who watch a record that was at revision was and has been found at rev.
func (w *waits) found(key string, was, rev uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.topics[key]; t != nil && t.rev == was && rev != was {
		t.tell(rev)
	}
}
