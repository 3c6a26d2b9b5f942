package tasks

import (
	"encoding/json"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
)

// Times and bounds of what a tool tells.
const (
	// nearTime is how long what it tells waits for a checkpoint to go out with.
	nearTime = 10 * time.Millisecond
	// apart is how far such writes are apart at least.
	apart = 100 * time.Millisecond
	// maxLog is how long a log message may be, and maxLogs how many wait to be written.
	maxLog  = 16 << 10
	maxLogs = 100
)

// notes are what the tool has told and what is to be written yet. It is the tool's
// [engine.Notifier].
type notes struct {
	r *run

	mu       sync.Mutex
	progress *engine.Progress
	logs     []Event
	timer    *time.Timer
	over     bool
	flushed  time.Time // guarded by the run's lock
}

// Progress implements [engine.Notifier]: the last one counts.
func (n *notes) Progress(p engine.Progress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.progress = &p
	n.plan()
}

// Log implements [engine.Notifier].
func (n *notes) Log(l engine.Log) {
	data, err := jsonv2.Marshal(l.Data)
	if err != nil || len(data) > maxLog {
		return
	}
	l.Data = json.RawMessage(data)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.logs) < maxLogs {
		n.logs = append(n.logs, Event{Kind: EventLog, Log: &l})
	}
	n.plan()
}

// plan has what waits written soon, unless that is planned.
func (n *notes) plan() {
	if n.timer == nil && !n.over {
		n.timer = time.AfterFunc(nearTime, n.flush)
	}
}

// flush writes what waits, if it is time.
func (n *notes) flush() {
	r := n.r
	r.lock()
	defer r.unlock()
	wait := thinning(r.e.Told, r.m.MaxEvents) - time.Since(n.flushed)
	n.mu.Lock()
	nothing := n.over || n.progress == nil && len(n.logs) == 0
	if n.timer = nil; !nothing && wait > 0 {
		n.timer = time.AfterFunc(wait, n.flush)
		nothing = true
	}
	n.mu.Unlock()
	if nothing || r.lost {
		return
	}
	n.flushed = time.Now()
	_ = r.writeLocked(func(*records.Task) []Event { return nil }) // what is lost is seen by the next write
}

// thinning is how far events are apart when there are many already: a task that tells for long
// is not to use up all that are kept.
func thinning(told uint64, most int) time.Duration {
	half := uint64(most / 2)
	if told < half {
		return apart
	}
	return apart << min((told-half)*10/max(1, half), 10)
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
	events   []Event
	progress *engine.Progress
	logs     []Event
	changed  bool
}

// take returns what is to go out with the next write, as far as events are kept.
func (n *notes) take(t *records.Task, now time.Time, most int) (told toTell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	told.progress, told.logs = n.progress, n.logs
	n.progress, n.logs = nil, nil
	for _, l := range told.logs {
		if t.Told < uint64(most) {
			t.Told++
			told.events = append(told.events, l)
		}
	}
	if p := told.progress; p != nil {
		told.changed = true
		t.Progress = encodeProgress(*p)
		if p.Message != "" {
			t.Message = p.Message
		}
		if t.Told < uint64(most) {
			t.Told++
			told.events = append(told.events, Event{Kind: EventProgress, Progress: p})
		}
	}
	return told
}

// back takes back what was not written.
func (n *notes) back(told toTell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logs = append(told.logs, n.logs...)
	if n.progress == nil {
		n.progress = told.progress
	}
}
