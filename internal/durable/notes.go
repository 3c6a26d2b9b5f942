package durable

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Bounds of what tools tell of their progress.
const (
	// maxMessage is how long a message may be, in bytes, and maxWaiting how many messages wait to be written.
	maxMessage = 16 << 10
	maxWaiting = 100
	// callBurst is how many reports of progress of a call are kept although a newer one waits already.
	callBurst = 32
	// nearPause is how long messages wait for a change of the saga to be written with, and callPause and taskPause
	// how far such writes are apart at least: a client waits for a call, and looks at a task now and then.
	nearPause = 5 * time.Millisecond
	callPause = 20 * time.Millisecond
	taskPause = 100 * time.Millisecond
)

// notes are the messages of the tool, until they are written. It is the tool's [engine.Notifier].
type notes struct {
	h     *hold
	pause time.Duration
	burst int

	mu      sync.Mutex
	client  engine.Notifier // of who waits for a call, or nil
	direct  bool            // messages are passed on at once, as there is no row
	waiting []note
	logs    int
	reports int // of progress so far
	timer   *time.Timer
	flushed time.Time
	over    bool
}

// note is an event that waits to be written. One that is replaceable makes way for a newer one.
type note struct {
	event
	replaceable bool
}

func (n *notes) init(h *hold, client engine.Notifier) {
	n.h, n.client, n.direct, n.pause = h, client, client != nil, taskPause
	if h.row.Mode == store.ModeCall {
		n.pause, n.burst = callPause, callBurst
	}
}

// record has messages from now on go to the row.
func (n *notes) record() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.direct = false
}

// Progress implements [engine.Notifier]: of what waits the last one counts.
func (n *notes) Progress(p engine.Progress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.direct {
		n.client.Progress(p)
		return
	}
	if len(p.Message) > maxMessage {
		p.Message = clip(p.Message[:maxMessage])
	}
	one := note{event: event{kind: kindProgress, body: body{Progress: (*progress)(&p)}}}
	if n.reports++; n.reports > n.burst {
		one.replaceable = true
		n.waiting = slices.DeleteFunc(n.waiting, func(o note) bool { return o.replaceable })
	}
	n.add(one)
}

// Log implements [engine.Notifier].
func (n *notes) Log(l engine.Log) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.direct {
		n.client.Log(l)
		return
	}
	data, err := json.Marshal(l.Data) // as dialects do
	if err != nil || len(data) > maxMessage || n.logs >= maxWaiting {
		return
	}
	n.logs++
	n.add(note{event: event{kind: kindLog, body: body{Log: &logged{l.Level, l.Logger, data}}}})
}

// Disconnect implements [engine.Disconnecter], for who waits here.
func (n *notes) Disconnect(retry time.Duration) {
	if d, ok := n.client.(engine.Disconnecter); ok {
		d.Disconnect(retry)
	}
}

func (n *notes) empty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting) == 0
}

func (n *notes) add(one note) {
	n.waiting = append(n.waiting, one)
	if n.timer == nil && !n.over {
		n.timer = time.AfterFunc(max(nearPause, n.pause-time.Since(n.flushed)), n.flush)
	}
}

// flush writes what waits, unless a change of the saga has taken it along.
func (n *notes) flush() {
	h := n.h
	h.lock()
	defer h.unlock()
	n.mu.Lock()
	n.timer, n.flushed = nil, time.Now()
	nothing := n.over || len(n.waiting) == 0
	n.mu.Unlock()
	if nothing || h.lost || h.rested { // what rests is not to be acquired again
		return
	}
	err := engine.Protect(func() error { return h.commitLocked(func(r *row) []event { return nil }) })
	if errors.As(err, new(*engine.PanicError)) { // what else fails is seen by the next commit
		h.c.Turns.Log.Error("what a tool tells cannot be recorded", "tool", h.row.Tool, "error", err)
	}
}

func (n *notes) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
}

// take returns what goes out with the next write, and shows it in the row.
func (n *notes) take(r *row) (told []event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.waiting {
		if p := one.Progress; p != nil {
			if was := r.Progress; was != nil && p.Done <= was.Done {
				continue // a flow reports again what it has reported before it asked
			}
			if r.Progress = p; p.Message != "" {
				r.Shown.Message = clip(p.Message)
			}
		}
		told = append(told, one.event)
	}
	r.Shown.Told += uint64(len(told))
	if r.Shown.Told-r.Shown.Halved >= maxTold/2 {
		r.Floor, r.Shown.Half, r.Shown.Halved = r.Shown.Half, r.Head, r.Shown.Told
	}
	n.waiting, n.logs = nil, 0
	return told
}

func (n *notes) back(told []event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []note
	for _, e := range told {
		if e.kind == kindLog {
			n.logs++
		}
		list = append(list, note{event: e})
	}
	list = append(list, n.waiting...)
	n.waiting = list[max(0, len(list)-maxWaiting-callBurst):] // more cannot be written at once: see store.MaxItems
}

// maxTold is how many items of progress and log are kept of a saga: when so many have come since the
// older ones were removed last, the older half goes.
const maxTold = 1000
