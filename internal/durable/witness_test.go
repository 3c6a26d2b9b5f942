package durable_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
)

// witness sees all that servers write about tasks, and which server has acquired which: what none of
// them may do is an error of the test, whether anything comes of it or not.
type witness struct {
	t    *testing.T
	keys *codec.Keyset

	mu      sync.Mutex
	holders map[store.ID]map[uint64]*link // which server has acquired it at that fence
	past    map[string][]string           // what has become of a task, by its id
	ids     map[store.ID]string           // of tasks

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

func newWitness(t *testing.T, keys *codec.Keyset) *witness {
	return &witness{t: t, keys: keys, holders: make(map[store.ID]map[uint64]*link), past: make(map[string][]string), ids: make(map[store.ID]string)}
}

// read opens a record, with the inputs that are unread.
func (w *witness) read(record *store.Record) *durable.Row {
	row, err := durable.OpenRow(w.keys, "test", record)
	if !assert.NoError(w.t, err, "what is written cannot be read") {
		return nil
	}
	return row
}

// call makes a call of a server's, and looks at what it does.
func (w *witness) call(l *link, c storetest.Call, next func() error) error {
	if !c.Writes() && c.Method != "Take" {
		return next()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Method == "Take" {
		err := next()
		for _, record := range *c.Taken {
			w.took(l, w.read(record))
		}
		return err
	}
	before := w.load(l, c.ID)
	err := next()
	switch {
	case err != nil:
		w.noteLocked(w.ids[c.ID], fmt.Sprintf("%s: cannot %s %v: %v", l, c.Method, kindsOf(c.Items), err))
	case c.Method == "Signal":
		w.signalled(l, before, w.load(l, c.ID), c.Items)
	default:
		w.wrote(l, before, w.read(c.Record), c.Items)
	}
	return err
}

// load returns a row as the store has it, or nil.
func (w *witness) load(l *link, id store.ID) *durable.Row {
	record, err := l.Store.Load(context.Background(), id)
	if err != nil {
		return nil
	}
	return w.read(record)
}

func kindsOf(items []store.Item) (list []string) {
	for i := range items {
		list = append(list, items[i].Kind)
	}
	return list
}

// uncertain reports whether a server that acquires a row must think that another one has begun to go on
// with it before.
func uncertain(r *durable.Row) bool { return r.Running.Doubt || r.Running.Held || r.Record.Tries > 0 }

// inherited reports whether the server that has a row, and has not written it, must think so.
func inherited(r *durable.Row) bool {
	return r.Running.Doubt || r.Running.Held && r.Record.Tries > 0 || r.Record.Tries > 1
}

func (w *witness) wrote(l *link, before, after *durable.Row, items []store.Item) {
	if after == nil {
		return
	}
	id, key := after.Name, after.ID
	t := about{w, id}
	if w.ids[key] = id; before == nil {
		w.holders[key] = map[uint64]*link{after.Fence: l}
		w.noteRow(l, "makes", after, items)
		return
	}
	w.noteRow(l, "writes", after, items)
	had := w.holders[key][before.Fence]
	if after.Fence == before.Fence {
		assert.Same(t, had, l, "%s: what writes has not acquired it", id)
		assert.True(t, before.Running.Held || before.Record.Tries > 0, "%s was put to rest, and is written by what had it", id)
	} else {
		assert.Equal(t, before.Fence+1, after.Fence, "%s: fences", id)
		assert.False(t, before.Until.After(after.Now), "%s is acquired though it is another's", id)
		w.mayLose(t, before, had)
		w.holders[key][after.Fence] = l
	}
	if !after.Status.Over() && bytes.Equal(before.Stand.Position, after.Stand.Position) && (after.Fence != before.Fence && uncertain(before) || after.Fence == before.Fence && inherited(before)) {
		assert.True(t, uncertain(after), "%s: it is forgotten that another may have done more", id)
	}
	w.keeps(t, before, after)
	if after.Mode == store.ModeSession { // a document, which counts for nothing once it is over
		return
	}
	ends := slices.Contains(kindsOf(items), "end")
	assert.Equal(t, after.Status.Over() && !before.Status.Over(), ends, "%s: it ends, and says so", id)
	switch {
	case before.Status.Over():
		assert.True(t, after.Status.Over(), "%s goes on after its end", id)
		assert.Equal(t, before.Shown.Ending, after.Shown.Ending, id)
		assert.Equal(t, before.End, after.End, id)
	case ends:
		assert.False(t, after.Times.Keep.Before(after.Shown.Updated.Add(after.Times.Retain)), "%s is not kept for long enough", id)
		assert.False(t, after.Keep.Before(after.Times.Keep), "%s is forgotten before", id)
	}
}

// keeps looks at what a write must not lose, also what has come while it was on its way.
func (w *witness) keeps(t about, before, after *durable.Row) {
	assert.False(t, after.Times.Keep.Before(before.Times.Keep), "%s is kept for less", t.id)
	assert.False(t, after.Times.Wanted.Before(before.Times.Wanted), "%s is wanted for less", t.id)
	assert.GreaterOrEqual(t, after.Shown.Changes, before.Shown.Changes, "%s: changes", t.id)
	if after.Status.Over() {
		return
	}
	if before.Cancelled {
		assert.True(t, after.Cancelled || after.Final, "%s: it is forgotten that it was cancelled", t.id)
	}
	if before.Final {
		assert.True(t, after.Final, "%s: it is forgotten that something is final", t.id)
	}
	if before.Undoing != nil && !after.Final {
		// That something is undone behind what could not be is noted, and not forgotten again.
		undoing := *before.Undoing
		if assert.NotNil(t, after.Undoing, "%s is not undone any more", t.id) {
			undoing.Behind = undoing.Behind || after.Undoing.Behind
			assert.Equal(t, undoing, *after.Undoing, "%s is undone otherwise", t.id)
		}
	}
	if bytes.Equal(before.Stand.Position, after.Stand.Position) {
		for _, a := range before.Stand.Answers {
			assert.Contains(t, after.Stand.Answers, a, "%s: an answer is lost", t.id)
		}
	}
}

// signalled looks at an input.
func (w *witness) signalled(l *link, before, after *durable.Row, items []store.Item) {
	if before == nil || after == nil {
		assert.Fail(w.t, "an input for what is not there")
		return
	}
	w.noteRow(l, "signals", after, items)
	t := about{w, after.Name}
	assert.False(t, before.Status.Over(), "%s has ended", after.Name)
	assert.Equal(t, before.Fence, after.Fence, "%s: fences", after.Name)
	w.keeps(t, before, after)
}

// took looks at what a server has taken.
func (w *witness) took(l *link, r *durable.Row) {
	if r == nil || w.holders[r.ID] == nil {
		return
	}
	w.noteRow(l, "takes", r, nil)
	if r.Running.Held || r.Record.Tries > 1 {
		w.mayLose(about{w, r.Name}, r, w.holders[r.ID][r.Fence-1])
	}
	w.holders[r.ID][r.Fence] = l
}

// mayLose looks whether a server may lose a row to another one.
func (w *witness) mayLose(t about, r *durable.Row, had *link) {
	if uncertain(r) && had != nil && !r.Status.Over() && (r.Running.Held || r.Record.Tries > 0) {
		assert.True(t, had.ill(), "%s is acquired from a server that is well", t.id)
	}
}

// noteRow keeps what a row was.
func (w *witness) noteRow(l *link, what string, r *durable.Row, items []store.Item) {
	left := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return time.Until(t).String()
	}
	where := sha256.Sum256(r.Stand.Position)
	w.noteLocked(r.Name, fmt.Sprintf(
		"%s %s %v: head %d, fence %d, %s, position %x (%d), held %v, doubt %v, tries %d+%d, cancelled %v, final %v, undoing %v, failures %d (%s), leased for %s, wakes in %s, over in %s, questions %d (answers %d), revision %d",
		l, what, kindsOf(items), r.Head, r.Fence, r.Status, where[:2], len(r.Stand.Position), r.Running.Held, r.Running.Doubt, r.Running.Tries, r.Record.Tries, r.Cancelled, r.Final, r.Undoing != nil,
		r.Running.Failures, r.Running.LastError, left(r.Until), left(r.Wake), left(r.Times.Wanted), len(r.Stand.Questions), len(r.Stand.Answers), r.Revision,
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

// fault keeps that something went wrong with a task.
func (w *witness) fault(l *link, c storetest.Call, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, ok := w.ids[c.ID]; ok {
		w.noteLocked(id, fmt.Sprintf("%s: %s %v %s", l, c.Method, kindsOf(c.Items), what))
	}
}

// history is what has happened last to a task.
func (w *witness) history(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return id + ":\n" + strings.Join(w.past[id], "\n")
}
