package tasks

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
)

// pace is how what a tool tells is written down.
type pace struct {
	// near is how long what it tells waits for a checkpoint to go out with, and apart how far
	// such writes are apart at least.
	near, apart time.Duration
	// burst is how many reports of progress are told though there is a newer one already.
	burst int
	// logs is how many log messages wait to be written, and most how many events are kept.
	logs int
	most uint64
}

// maxLog is how long a log message may be, and a message told with progress; maxLogSize is how much of
// these waits to be written.
const (
	maxLog     = 16 << 10
	maxLogSize = 1 << 20
)

// paceOf is the pace of a task, which is looked at now and then, or of a call, which somebody
// reads as it is told.
func (m *Manager) paceOf(call bool) pace {
	p := pace{near: 10 * time.Millisecond, apart: 100 * time.Millisecond, logs: 100, most: uint64(m.MaxEvents)}
	if call {
		p.near, p.apart, p.burst, p.logs, p.most = time.Millisecond, 20*time.Millisecond, 32, 1000, 10*p.most
	}
	return p
}

// replaceable is in the place of the number of an event that waits for one, if it makes way for a
// newer one.
const replaceable = 1

// notes are what the tool has told and what is to be written yet. It is the tool's
// [engine.Notifier].
type notes struct {
	r *run
	pace

	mu      sync.Mutex
	client  engine.Notifier // of who waits for a call, or nil
	direct  bool            // it is told at once, as there is no record
	waiting []Event
	logged  int // log messages among them
	size    int
	shown   int // reports of progress so far
	timer   *time.Timer
	over    bool
	flushed time.Time // guarded by the run's lock
}

func (n *notes) init(r *run, client engine.Notifier) {
	n.r, n.client, n.direct = r, client, client != nil
	n.pace = r.m.paceOf(r.call)
}

// record has what is told from now on go to the record.
func (n *notes) record() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.direct = false
}

// tells returns who is told at once, or nil.
func (n *notes) tells() engine.Notifier {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.direct {
		return n.client
	}
	return nil
}

// Progress implements [engine.Notifier]: of what waits the last one counts.
func (n *notes) Progress(p engine.Progress) {
	if client := n.tells(); client != nil {
		client.Progress(p)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p.Message = clipTo(p.Message, maxLog)
	e := Event{Kind: EventProgress, Progress: &p}
	if n.shown++; n.shown > n.burst {
		e.N = replaceable
		n.waiting = slices.DeleteFunc(n.waiting, func(e Event) bool { return e.N == replaceable })
	}
	n.waiting = append(n.waiting, e)
	n.plan()
}

// Log implements [engine.Notifier].
func (n *notes) Log(l engine.Log) {
	if client := n.tells(); client != nil {
		client.Log(l)
		return
	}
	data, err := jsonv2.Marshal(l.Data)
	if err != nil || len(data) > maxLog {
		return
	}
	l.Data = json.RawMessage(data)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.logged < n.logs && n.size+len(data) <= maxLogSize {
		n.logged++
		n.size += len(data)
		n.waiting = append(n.waiting, Event{Kind: EventLog, Log: &l})
	}
	n.plan()
}

// Disconnect implements [engine.Disconnecter], for who waits here.
func (n *notes) Disconnect(retry time.Duration) {
	if d, ok := n.client.(engine.Disconnecter); ok {
		d.Disconnect(retry)
	}
}

// empty reports whether nothing waits to be written.
func (n *notes) empty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting) == 0
}

// plan has what waits written soon, unless that is planned.
func (n *notes) plan() {
	if n.timer == nil && !n.over {
		n.timer = time.AfterFunc(n.near, n.flush)
	}
}

// flush writes what waits, if it is time.
func (n *notes) flush() {
	r := n.r
	r.lock()
	defer r.unlock()
	told := uint64(0)
	if r.e != nil {
		told = r.e.Told
	}
	wait := n.thinning(told) - time.Since(n.flushed)
	n.mu.Lock()
	nothing := n.over || len(n.waiting) == 0
	if n.timer = nil; !nothing && wait > 0 {
		n.timer = time.AfterFunc(wait, n.flush)
		nothing = true
	}
	n.mu.Unlock()
	if nothing || !r.isUnwritten() && !r.e.Taken() { // what rests is not to be taken again
		return
	}
	n.flushed = time.Now()
	_ = r.writeLocked(unchanged) // what is lost is seen by the next write
}

// thinning is how far events are apart when there are many already: a task that tells for long
// is not to use up all that are kept.
func (p *pace) thinning(told uint64) time.Duration {
	half := p.most / 2
	if told < half {
		return p.apart
	}
	return p.apart << min((told-half)*10/max(1, half), 10)
}

// stop ends what is planned.
func (n *notes) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
}

// toTell are events that are being written.
type toTell struct {
	events  []Event
	taken   []Event // what waited
	changed bool
}

// take returns what is to go out with the next write, as far as events are kept.
func (n *notes) take(t *records.Task) (told toTell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	told.taken = n.waiting
	n.waiting, n.logged, n.size = nil, 0, 0
	for _, e := range told.taken {
		if p := e.Progress; p != nil {
			if n.r.call && !isFurther(p, t.Progress) {
				continue
			}
			told.changed = true
			t.Progress = encodeProgress(p)
			if p.Message != "" {
				t.Message = p.Message
			}
		}
		if t.Told < n.most {
			t.Told++
			told.events = append(told.events, e)
		}
	}
	return told
}

// isFurther reports whether progress is more than was told before. A flow reports again what it has
// reported before it asked, and nobody who waits for a call is told of less.
func isFurther(p *engine.Progress, told []byte) bool {
	before, err := decodeProgress(told)
	return err != nil || before == nil || p.Done > before.Done
}

// back takes back what was not written.
func (n *notes) back(told toTell) {
	if len(told.taken) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(told.taken, n.waiting...)
	for i := range told.taken {
		if l := told.taken[i].Log; l != nil {
			data, _ := l.Data.(json.RawMessage)
			n.logged++
			n.size += len(data)
		}
	}
}
