package tasks_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// witness sees all that servers write about tasks, and who has taken which: what none of them
// may do is an error of the test, whether anything comes of it or not.
type witness struct {
	t    *testing.T
	page *page
	book *records.Book

	mu      sync.Mutex
	holders map[string]map[uint64]*link // who has taken it at that revision
	begun   map[string]begun
	past    map[string][]string // what has become of a task, by its id
	ids     map[string]string   // of tasks, by the names of their records

	wrong sync.Map // ids of tasks of which something was not as it should be
}

// about is the test, as far as it is about a task.
type about struct {
	*witness
	id string
}

// Errorf implements assert.TestingT.
func (a about) Errorf(format string, args ...any) {
	a.t.Helper()
	a.wrong.Store(a.id, true)
	a.t.Errorf(format, args...)
}

// Helper has those who call it left out of what failed where.
func (a about) Helper() { a.t.Helper() }

// tell logs what has happened to the tasks of which something was not as it should be.
func (w *witness) tell() {
	for id := range w.wrong.Range {
		w.t.Log(w.history(id.(string)))
	}
}

// begun is when the present epoch of a record has begun.
type begun struct{ epoch, rev uint64 }

// page is a store of one record.
type page struct {
	ledger.Store
	r *ledger.Record
}

func (p *page) Load(context.Context, string) (*ledger.Record, error) { return p.r, nil }

func newWitness(t *testing.T, keys *codec.Keyset) *witness {
	p := new(page)
	return &witness{
		t: t, page: p, book: records.New(p, func() *codec.Keyset { return keys }, "test", -1),
		holders: make(map[string]map[uint64]*link), begun: make(map[string]begun), past: make(map[string][]string), ids: make(map[string]string),
	}
}

// read returns what a record says, or nil if it is not a task's.
func (w *witness) read(r *ledger.Record) *records.TaskEntry {
	w.page.r = r
	e, err := w.book.TaskAt(context.Background(), "")
	if err != nil {
		return nil
	}
	return e
}

func (w *witness) swap(ctx context.Context, l *link, r *ledger.Record, items []ledger.Item) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var before *records.TaskEntry
	if r.Rev > 0 {
		old, err := l.Store.Load(ctx, r.Key)
		if err != nil {
			return err
		}
		if old != nil && old.Rev == r.Rev {
			before = w.read(old)
		}
	}
	err := l.Store.Swap(ctx, r, items...)
	after := w.read(r)
	switch {
	case after == nil:
	case err == nil:
		w.ids[r.Key] = after.ID
		w.wrote(l, before, after, len(items))
	default:
		w.noteEntry(l, "cannot write ("+err.Error()+")", after)
	}
	return err
}

func (w *witness) wrote(l *link, before, after *records.TaskEntry, items int) {
	key, id := after.Key(), after.ID
	t := about{w, id}
	w.noteEntry(l, "writes", after)
	if before == nil {
		w.holders[key], w.begun[key] = make(map[uint64]*link), begun{}
		before = new(records.TaskEntry)
	} else if epoch := before.Epoch(); epoch > w.begun[key].epoch { // it was taken since, and nothing else
		w.begun[key] = begun{epoch, before.Rev()}
	}
	now := w.begun[key]
	taken := after.Epoch() == now.epoch+1
	if taken {
		assert.False(t, before.Exists() && before.Taken(), "%s is taken though it is another's", id)
		w.begun[key] = begun{after.Epoch(), after.Rev()}
		w.holders[key][after.Rev()] = l
	} else {
		assert.Equal(t, now.epoch, after.Epoch(), "%s: epochs", id)
	}
	if byWorker := after.Marks != before.Marks; byWorker && !taken && before.Exists() {
		assert.Same(t, w.holders[key][now.rev], l, "%s: who writes has not taken it", id)
		assert.True(t, before.Taken(), "%s was put to rest, and is written by who had it", id)
	}
	if before.Exists() && after.State != records.TaskEnded && bytes.Equal(before.Position, after.Position) && inFlight(before, after.Epoch()) {
		assert.True(t, inFlight(after, after.Epoch()+1), "%s: it is forgotten that somebody may have done more", id)
	}
	told := uint64(items)
	if before.State == records.TaskEnded {
		assert.Equal(t, before.State, after.State, "%s goes on after its end", id)
		assert.Equal(t, before.Status, after.Status, id)
		assert.Equal(t, before.End, after.End, id)
		assert.False(t, after.Keep.Before(before.Keep), "%s is kept for less", id)
	} else if after.State == records.TaskEnded {
		told++
		assert.False(t, after.Keep.Before(time.Now().Add(after.Retain-longestWrite)), "%s is not kept for long enough", id)
		assert.False(t, after.KeepUntil.Before(after.Keep), "%s is forgotten before", id)
	}
	assert.Equal(t, before.Events+told, after.Events, "%s: events", id)
	if len(before.Undo) > 0 && after.State != records.TaskEnded && !after.TooLate {
		// What is undone behind something that could not be is noted, and not forgotten again.
		if noted, ok := bytes.CutSuffix(after.Undo, []byte{6, 1, 1, 5, 0}); !ok || !bytes.Equal(before.Undo, append(noted[:len(noted):len(noted)], 5, 3, 0, 0, 0)) {
			assert.Equal(t, before.Undo, after.Undo, "%s is not undone any more", id)
		}
	}
}

// inFlight reports whether who has taken a task at the epoch must think that somebody else has begun
// to go on with it before.
func inFlight(e *records.TaskEntry, epoch uint64) bool { return e.Loose || epoch-e.Base > 1 }

// longestWrite is how long it takes at most from when something is to be written until it is, or
// not, by clocks that are wrong.
const longestWrite = 10*time.Second + maxSkew

// took is called with what a server has taken.
func (w *witness) took(l *link, list []*ledger.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range list {
		e := w.read(r)
		if e == nil || w.holders[r.Key] == nil {
			continue
		}
		w.noteEntry(l, "takes", e)
		now := w.begun[r.Key]
		had := w.holders[r.Key][now.rev]
		if e.Rest.IsZero() && e.Epoch() == now.epoch+1 && had != nil && e.State != records.TaskEnded {
			assert.True(about{w, e.ID}, had.ill(), "%s is taken from a server that is well", e.ID)
		}
		w.holders[r.Key][r.Rev] = l
	}
}

// noteEntry keeps what is written of a task.
func (w *witness) noteEntry(l *link, what string, e *records.TaskEntry) {
	left := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return time.Until(t).String()
	}
	where := sha256.Sum256(e.Position)
	w.noteLocked(e.ID, fmt.Sprintf(
		"%s %s: rev %d, epoch %d, base %d, marks %d, state %d, position %x (%d), taken %v, loose %v, cancelled %v, too late %v, undo %v, failures %d (%s), rests for %s, wakes in %s, over in %s, questions %d (of %d bytes, answers %d), revision %d",
		l, what, e.Rev(), e.Epoch(), e.Base, e.Marks, e.State, where[:2], len(e.Position), e.Taken(), e.Loose, e.Cancelled, e.TooLate, len(e.Undo) > 0, e.Failures, e.LastError,
		left(e.Rest), left(e.Wake), left(e.Over()), e.Asked, len(e.Questions), len(e.Answers), e.Target.Revision,
	))
}

// mostPast is how much is kept of a task.
const mostPast = 400

func (w *witness) noteLocked(id, what string) {
	past := w.past[id]
	if n := len(past); n > 1 && strings.HasSuffix(past[n-1], " "+what) && strings.HasSuffix(past[n-2], " "+what) {
		past = past[:n-1] // the first and the last of many will do
	}
	past = append(past, time.Now().Format("02 15:04:05.000 ")+what)
	if len(past) > mostPast {
		past = append(past[:0:0], past[mostPast/2:]...)
	}
	w.past[id] = past
}

// note keeps what has happened to a task.
func (w *witness) note(id, what string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(id, fmt.Sprintf(what, args...))
}

// fault keeps that something went wrong with the record of a task.
func (w *witness) fault(l *link, key, what string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, ok := w.ids[key]; ok {
		w.noteLocked(id, fmt.Sprintf("%s: "+what, append([]any{l}, args...)...))
	}
}

// history is what has happened last to a task.
func (w *witness) history(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return id + ":\n" + strings.Join(w.past[id], "\n")
}
