package durable_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Of what was written last it may not be known whether it is there. What is written next must be
// taken for nothing else.

// telling is how long a turn takes in which something is told, see tells, and written without the server
// knowing it, see unheard.
const telling = 8 * time.Second

func tells(t *turn) {
	time.Sleep(3 * time.Second)
	t.Progress(1, 2, "half")
	time.Sleep(telling - 3*time.Second)
}

// unheard waits until what has just begun has told something.
func unheard(t *testing.T, way *narrow) {
	t.Helper()
	time.Sleep(2 * time.Second)
	way.mute.Store(true)
	time.Sleep(telling - 3*time.Second)
	require.NotZero(t, way.made.Load())
	way.mute.Store(false)
}

// A question that is asked after such a write is asked, and not taken for one that is there.
func TestAQuestionAfterAnUnknownWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var runs atomic.Int32
		a, way := r.narrowed(saga.Machine[none, none]{
			Info: saga.Info{Name: "asks", Tasks: optional, Asks: []steps.Question{nameForm}},
			Start: func(t *turn) (saga.Next, error) {
				runs.Add(1)
				tells(t)
				return t.Ask("end", nameForm)
			},
			Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
		})
		r.work(a)
		task := r.start(a, call(a, "asks", ""))
		unheard(t, way)
		began := time.Now()
		r.until(a, task.ID, tasks.InputRequired)
		assert.Less(t, time.Since(began), 4*time.Second, "it asks when its turn ends")
		assert.EqualValues(t, 1, runs.Load())
	})
}

// dyingHalfway has a server die when it has undone b, and not a, until end is called. undoneByOthers is to
// be called when that has happened, and before others undo a.
func dyingHalfway(t *testing.T, things *counter, way *narrow) (undoneByOthers, end func()) {
	hangs := make(chan none)
	things.before = func(what string) error {
		if what == "b" {
			return nil
		}
		way.noWrite.Store(true)
		way.noTake.Store(true)
		<-hangs
		return errors.New("dead")
	}
	return func() {
		t.Helper()
		require.Equal(t, map[string]bool{"a": true}, things.held())
		things.mu.Lock()
		defer things.mu.Unlock()
		things.before = nil
	}, func() { close(hangs) }
}

// That a task is being undone is known before anything is, whatever was written before.
func TestAnUndoAfterAnUnknownWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		a, b := things.effect("a"), things.effect("b")
		var runs atomic.Int32
		tool := single("fails", func(t *turn) (saga.Next, error) {
			for _, e := range []*saga.Effect[string, string]{a, b} {
				if _, err := saga.Do(t, e, "x"); err != nil {
					return nil, err
				}
			}
			if runs.Add(1) == 1 {
				tells(t)
				return nil, saga.Failf("as it is now")
			}
			return t.Textf("done")
		}, a, b)
		one, way := r.narrowed(tool)
		undoneByOthers, end := dyingHalfway(t, things, way)
		defer end()
		r.work(one)
		task := r.start(one, call(one, "fails", ""))
		unheard(t, way)
		time.Sleep(4 * time.Second)
		undoneByOthers()
		other := r.manager(nil, tool)
		r.work(other)
		task = r.until(other, task.ID, tasks.Completed)
		assert.True(t, task.End.Result.IsError, "nobody goes on with what was undone")
		assert.Empty(t, things.held())
		assert.EqualValues(t, 1, runs.Load())
	})
}

// A ledger that does not answer in time cannot be used: that is no fault of the tool's.
func TestALedgerThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		effect := (&counter{holds: map[string]bool{}}).effect("a")
		m, way := r.narrowed(single("acts", func(t *turn) (saga.Next, error) {
			_, err := saga.Do(t, effect, "x")
			return nil, err
		}, effect))
		r.work(m)
		time.Sleep(time.Second) // it has announced its tools
		way.hangs.Store(true)
		s := call(m, "acts", "")
		s.Delay = delay
		_, err := m.Start(t.Context(), s)
		require.ErrorIs(t, err, durable.ErrUnavailable)
	})
}

// A task that it is too late to cancel goes on from where it was, whatever happens while that is
// found out.
func TestTooLateToCancelWhileMoreHappens(t *testing.T) {
	for n := range 4 {
		dies, second := n%2 == 1, n/2 == 1
		inBubble(t, func(t *testing.T, r *rig) {
			tool := pays(new(atomic.Int32))
			a, way := r.narrowed(tool)
			b := r.manager(nil, tool)
			r.work(a)
			task := r.start(a, call(a, "pays", ""))
			time.Sleep(time.Second)
			stop := r.work(b)
			happens := func() {
				way.noWrite.Store(dies)
				if dies {
					way.noTake.Store(true)
				}
				require.NoError(t, b.Extend(t.Context(), "p", task.ID, time.Now().Add(100*time.Hour)))
			}
			way.next(happens) // before the first thing that it writes, or the second
			if second {
				way.next(func() { way.next(happens) })
			}
			_, err := b.Cancel(t.Context(), "p", task.ID)
			require.NoError(t, err)
			task = r.until(b, task.ID, tasks.Completed)
			assert.Contains(t, text(t, task), "delivered", "dies: %v, second: %v", dies, second)
			stop()
		})
	}
}

// A cancel that was too late is over, also for who has sent it and hears of that late.
func TestACancelIsHeardOfLate(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var runs atomic.Int32
		s := spied(r)
		m := r.manager(nil, pays(&runs))
		r.work(m)
		task := r.start(m, call(m, "pays", ""))
		time.Sleep(time.Second)
		var late atomic.Bool
		s.fails(func(write func() error) error {
			first := !late.Swap(true) // before others can hear of it
			err := write()
			if first {
				time.Sleep(time.Minute)
			}
			return err
		})
		_, err := m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 2, runs.Load(), "it began again")
		r.until(m, task.ID, tasks.Completed)
		assert.EqualValues(t, 2, runs.Load())
	})
}

// What a tool has told is told once, though nobody knows whether it was written.
func TestWhatIsToldWithAnUnknownWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m, way := r.narrowed(single("tells", func(t *turn) (saga.Next, error) {
			tells(t)
			return t.Textf("done")
		}))
		r.work(m)
		task := r.start(m, call(m, "tells", ""))
		unheard(t, way)
		task = r.until(m, task.ID, tasks.Completed)
		assert.Equal(t, "Completed.", task.Message)
		events, err := m.Logged(t.Context(), "p", task.ID, 0)
		require.NoError(t, err)
		require.Len(t, events, 2)
		assert.True(t, events[0].Progress)
		assert.True(t, events[1].End)
	})
}

// A task whose turn was cut off by a cancel ends as one that was cancelled, also if somebody else
// goes on with its undo.
func TestAnUndoOfWhatWasCancelledIsGoneOnWith(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		a, b := things.effect("a"), things.effect("b")
		var runs atomic.Int32
		tool := single("long", func(t *turn) (saga.Next, error) {
			for _, e := range []*saga.Effect[string, string]{a, b} {
				if _, err := saga.Do(t, e, "x"); err != nil {
					return nil, err
				}
			}
			runs.Add(1)
			<-t.Done()
			return nil, context.Cause(t)
		}, a, b)
		one, way := r.narrowed(tool)
		other := r.manager(nil, tool)
		undoneByOthers, end := dyingHalfway(t, things, way)
		defer end()
		r.work(one)
		task := r.start(one, call(one, "long", ""))
		time.Sleep(time.Second)
		_, err := other.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		time.Sleep(time.Second)
		undoneByOthers()
		r.work(other)
		r.until(other, task.ID, tasks.Cancelled)
		assert.Empty(t, things.held())
		assert.EqualValues(t, 1, runs.Load(), "nor does anybody run it again to find what it did")
	})
}

// A task of which something is undone does not go on, though what it did later turns out to be final
// for who goes on with its undo.
func TestWhatIsUndoneBehindAFinalEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		tool := things.two(saga.Info{})
		one, way := r.narrowed(tool)
		other := r.manager(nil, tool)
		things.before = func(what string) error {
			if what == "b" {
				return errors.New("no answer")
			}
			way.noWrite.Store(true) // it dies when a is undone
			way.noTake.Store(true)
			return nil
		}
		stop := r.work(one)
		task := r.until(one, r.start(one, call(one, "two", "")).ID, tasks.InputRequired)
		_, err := other.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.Equal(t, map[string]bool{"b": true}, things.held())
		things.mu.Lock()
		things.before = func(string) error { return saga.Final(errors.New("it is used")) }
		things.mu.Unlock()
		r.work(other)
		task = r.until(other, task.ID, tasks.Cancelled)
		assert.Contains(t, text(t, task), "may have been undone")
		stop()
	})
}

// What could not be undone at first, before an earlier effect turned out to be final, is undone later.
// As it may have been undone already, the task does not go on.
func TestTasksUndoLaterWhatFollowsAFinalEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		m := r.manager(nil, things.two(saga.Info{}))
		things.before = func(what string) error {
			if what == "b" {
				return errors.New("no answer")
			}
			return saga.Final(errors.New("it is used"))
		}
		r.work(m)
		task := r.until(m, r.start(m, call(m, "two", "")).ID, tasks.InputRequired)
		_, err := m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		task = r.until(m, task.ID, tasks.Cancelled)
		assert.Contains(t, text(t, task), `is done and final`)
		assert.Equal(t, map[string]bool{"a": true, "b": true}, things.held())
		things.mu.Lock()
		things.before = nil
		things.mu.Unlock()
		time.Sleep(5 * time.Minute)
		assert.Equal(t, map[string]bool{"a": true}, things.held())
	})
}

// What was not made, though nobody could say so, is not taken for what another has written in its place.
func TestAnotherWritesInThePlaceOfAnUnknownWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool := saga.Machine[none, none]{
			Info:  saga.Info{Name: "asks", Tasks: optional, Asks: []steps.Question{nameForm}},
			Start: func(t *turn) (saga.Next, error) { time.Sleep(time.Second); return t.Ask("end", nameForm) },
			Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
		}
		other := r.manager(nil, tool)
		seen := spied(r)
		m := r.manager(nil, tool)
		r.work(m)
		id := r.start(m, call(m, "asks", "")).ID
		seen.fails(func(func() error) error {
			seen.fails(nil)
			assert.NoError(t, other.Extend(t.Context(), "p", id, time.Now().Add(100*time.Hour)))
			return store.ErrUnknown
		})
		began := time.Now()
		r.until(m, id, tasks.InputRequired)
		assert.Less(t, time.Since(began), 2*time.Second)
	})
}
