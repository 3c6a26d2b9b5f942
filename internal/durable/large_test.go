package durable_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What is too large for the ledger is so the next time as well: the task ends, with what it did
// undone, also what it does not know whether it did.
func TestWhatIsTooLarge(t *testing.T) {
	type state struct {
		Text string `json:"text"`
	}
	type turn = saga.Turn[none, state]
	huge := strings.Repeat("x", store.MaxState)
	var calls, undone atomic.Int32
	effect := func(out string, err error) *saga.Effect[string, string] {
		return &saga.Effect[string, string]{
			Name: "act", Tries: 1,
			Do:   func(context.Context, saga.Key, string) (string, error) { calls.Add(1); return out, err },
			Undo: func(context.Context, saga.Performed[string, string]) error { undone.Add(1); return nil },
		}
	}
	known, unknown := effect("done", nil), effect("", errors.New("no answer"))
	asks := func(t *turn) (saga.Next, error) { t.State.Text = huge; return t.Ask("end", nameForm) }
	for name, c := range map[string]struct {
		effect *saga.Effect[string, string]
		ends   func(t *turn) (saga.Next, error)
	}{
		"what it remembers when it asks":                {known, asks},
		"what it remembers when it asks, after a doubt": {unknown, asks},
		"what it remembers at a checkpoint":             {known, func(t *turn) (saga.Next, error) { t.State.Text = huge; return t.Goto("end") }},
		"what came of an effect":                        {effect(huge, nil), func(t *turn) (saga.Next, error) { return t.Goto("end") }},
		"parts, after a doubt":                          {unknown, func(t *turn) (saga.Next, error) { return t.Yield("end", content.Textf("%s", huge)) }},
	} {
		tool := saga.Machine[none, state]{
			Info: saga.Info{Name: "large", Tasks: optional, Yields: true, Effects: []saga.Declared{c.effect}, Asks: []steps.Question{nameForm}},
			Start: func(t *turn) (saga.Next, error) {
				if _, err := saga.Do(t, c.effect, "x"); err != nil && c.effect != unknown {
					return nil, err
				}
				return c.ends(t)
			},
			Steps: saga.Steps[none, state]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
		}
		for _, waits := range []bool{false, true} {
			inBubble(t, func(t *testing.T, r *rig) {
				calls.Store(0)
				undone.Store(0)
				m := r.manager(nil, tool)
				r.work(m)
				s := call(m, "large", "")
				if waits {
					s = waited(m, "large")
				}
				task := r.until(m, r.start(m, s).ID, tasks.Failed)
				assert.Regexp(t, "^The call has (more to remember|given more partial results) than", task.Err.Error(), name)
				assert.EqualValues(t, 1, undone.Load(), name)
				assert.Less(t, time.Since(task.Created), time.Minute)
			})
		}
	}
}

// A call that needs no record for anything else is refused with the same words.
func TestACallThatIsTooLarge(t *testing.T) {
	type state struct {
		Text string `json:"text"`
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, saga.Machine[none, state]{
			Info: saga.Info{Name: "large", Asks: []steps.Question{nameForm}},
			Start: func(t *saga.Turn[none, state]) (saga.Next, error) {
				t.State.Text = strings.Repeat("x", store.MaxState)
				return t.Ask("end", nameForm)
			},
			Steps: saga.Steps[none, state]{"end": func(t *saga.Turn[none, state]) (saga.Next, error) { return t.Textf("done") }},
		})
		r.work(m)
		_, err := m.Start(t.Context(), waited(m, "large"))
		require.ErrorAs(t, err, new(*turns.Error))
		require.ErrorAs(t, err, new(*tasks.FailedError))
	})
}

// What is told with progress is cut where it would not let the task be written down.
func TestProgressThatIsTooLarge(t *testing.T) {
	for _, n := range []int{5000, store.MaxState} {
		progressOf(t, n)
	}
}

func progressOf(t *testing.T, n int) {
	inBubble(t, func(t *testing.T, r *rig) {
		var runs atomic.Int32
		m := r.manager(nil, single("tells", func(t *turn) (saga.Next, error) {
			runs.Add(1)
			t.Progress(1, 2, strings.Repeat("€", n))
			time.Sleep(time.Second)
			return t.Textf("done")
		}))
		r.work(m)
		task := r.until(m, r.start(m, call(m, "tells", "")).ID, tasks.Completed)
		assert.EqualValues(t, 1, runs.Load())
		require.NotNil(t, task.Progress)
		assert.Less(t, len(task.Progress.Message), 20<<10)
		assert.Contains(t, task.Progress.Message, "€€€")
	})
}

// An answer that is too large is refused as one that cannot be read is: the question stays open.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, greeter())
		r.work(m)
		for _, waits := range []bool{false, true} {
			s := call(m, "greet", "")
			if waits {
				s = waited(m, "greet")
			}
			task := r.until(m, r.start(m, s).ID, tasks.InputRequired)
			id := task.Questions[0].ID
			_, err := m.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(id, `{"name":"`+strings.Repeat("x", store.MaxState)+`"}`)})
			require.ErrorAs(t, err, new(*engine.AnswerError))
			_, err = m.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(id, `{"name":"Ada"}`)})
			require.NoError(t, err)
			r.until(m, task.ID, tasks.Completed)
		}
	})
}

// So the task ends that waits for an event whose value is too large to be kept with what it remembers, whether that comes
// before it waits, while the ledger is about to know that, or after.
func TestAnEventThatIsTooLarge(t *testing.T) {
	type state struct {
		Text string `json:"text"`
	}
	sent, paid := &steps.Event[string]{ID: "sent", Message: "Waiting.", Within: time.Hour}, &steps.Event[string]{ID: "paid", Message: "Waiting.", Within: time.Hour}
	value := accepts(`"` + strings.Repeat("x", store.MaxState/2) + `"`)
	for _, comes := range []string{"before", "meanwhile", "after"} {
		inBubble(t, func(t *testing.T, r *rig) {
			d := newDesk()
			effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
			tool := saga.Machine[none, state]{
				Info: saga.Info{Name: "large", Tasks: optional, Asks: []steps.Question{sent, paid}, Effects: []saga.Declared{effect}},
				Start: func(t *saga.Turn[none, state]) (saga.Next, error) {
					if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
						return nil, err
					}
					t.State.Text = strings.Repeat("x", store.MaxState/2)
					return t.Ask("end", sent.With(steps.Key("k")), paid.With(steps.Key("k")))
				},
				Steps: saga.Steps[none, state]{"end": func(t *saga.Turn[none, state]) (saga.Next, error) { return t.Textf("done") }},
			}
			other := r.manager(nil, tool)
			var once sync.Once
			deliver := func(when string) {
				if when == comes {
					once.Do(func() {
						_, err := other.Deliver(context.Background(), other.AtKey("large", "sent", "k"), value)
						assert.NoError(t, err)
					})
				}
			}
			m, err := durable.New(durable.Config{Turns: r.runner(tool), Store: &intercept.Store{Store: r.store, Around: func(_ context.Context, c intercept.Call, next func() error) error {
				if c.Method == "Load" && c.ID == other.AtKey("large", "paid", "k").Event { // the other event's document says that it waits
					deliver("meanwhile")
				}
				return next()
			}}})
			require.NoError(t, err)
			r.work(m)
			deliver("before")
			task := r.start(m, call(m, "large", ""))
			time.Sleep(time.Second)
			deliver("after")
			task = r.until(m, task.ID, tasks.Failed)
			require.ErrorContains(t, task.Err, "more to remember")
			assert.Less(t, task.Updated.Sub(task.Created), time.Minute)
			left, _ := d.left("x")
			assert.Empty(t, left)
		})
	}
}
