package durable_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// client drives a task and checks all that can be seen of it.
func (w *world) client(n int) {
	id, tool, fail := fmt.Sprint("task", n), []string{"machine", "flow"}[w.intN(2)], w.intN(10) == 0
	cancelAt, awayAt, idle, asCall, final, patient := -1, -1, w.intN(15) == 0, w.intN(2) == 0, w.intN(5) == 0, w.intN(3) > 0
	if !patient && w.intN(4) == 0 {
		awayAt = w.intN(6)
	}
	if w.intN(4) == 0 {
		cancelAt = w.intN(12)
	}
	t, ctx := about{w.seen, id}, context.Background()
	begun := time.Now()
	w.seen.note(id, "begins: %s, fail %v, final %v, call %v, patient %v, idle %v", tool, fail, final, asCall, patient, idle)
	w.tries(id, func(m *durable.Core) error {
		s := call(m, tool, fmt.Sprintf(`{"task":%q,"fail":%v,"final":%v}`, id, fail, final))
		s.ID = id
		if !patient {
			s.Patience = patience
		}
		if asCall {
			s.Delay, s.Keep = delay, time.Hour
		}
		_, err := m.Start(ctx, s)
		if errors.Is(err, tasks.ErrExists) {
			err = nil
		}
		return err
	})
	answered := map[string]bool{}
	wanted, asks := time.Now(), time.Now()
	away := false
	var last *tasks.Task
	for look := 0; ; look++ {
		forgotten := false
		w.tries(id, func(m *durable.Core) (err error) {
			now, err := m.Get(ctx, "p", id)
			if errors.Is(err, tasks.ErrNotFound) {
				forgotten = true
				return nil
			}
			if err == nil {
				last = now
			}
			return err
		})
		if forgotten {
			assert.Fail(t, "lost", "%s is lost", id)
			return
		}
		if last.Status.Ended() {
			w.seen.note(id, "has ended: %v", last.Status)
			break
		}
		if last.Status == tasks.InputRequired {
			asks = time.Now()
		}
		if !assert.Less(t, time.Since(begun), 26*time.Hour, "%s is stuck", tool) ||
			!assert.Less(t, min(time.Since(last.Updated), time.Since(asks)), 4*time.Hour, "%s is stuck", tool) ||
			!patient && !assert.Less(t, time.Since(wanted), patience+2*time.Hour, "%s goes on for nobody", tool) {
			return
		}
		if away = away || look == awayAt; !patient && !away {
			w.tries(id, func(m *durable.Core) error { _, err := m.Renew(ctx, "p", id, patience, nil); return err })
			wanted = time.Now()
		}
		if look == cancelAt && !away {
			w.cancel(id)
		}
		if last.Status == tasks.InputRequired && !idle && !away && w.intN(3) > 0 {
			var answers []steps.Answer
			for _, q := range last.Questions {
				if w.intN(3) > 0 {
					assert.False(t, answered[q.ID], "%s: %q is asked again", id, q.ID)
					w.seen.note(id, "%q is answered", q.ID)
					answers = append(answers, accept(q.ID, fmt.Sprintf(`{"word":%q}`, q.ID)))
				}
			}
			var given *tasks.Task
			for range 1 + w.intN(2) { // perhaps twice
				w.tries(id, func(m *durable.Core) (err error) { given, err = m.Answer(ctx, "p", id, answers); return err })
				w.seen.note(id, "the answers have come")
			}
			for i, q := range last.Questions {
				// A task that is being cancelled takes no answers. It says so, and asks again if that
				// was too late.
				isGiven := slices.ContainsFunc(given.Given, func(g tasks.Given) bool { return g.Number == last.Numbers[i] })
				if was := slices.ContainsFunc(answers, func(a steps.Answer) bool { return a.StepID == q.ID }); was && (isGiven || !w.cancelled(id)) {
					answered[q.ID] = true
				}
			}
		}
		time.Sleep(time.Duration(1+w.intN([]int{3, 60, 600, 2400}[w.intN(4)])) * time.Second)
	}
	w.check(id, tool, fail, idle || away, final, last)
	ended := w.events(id)
	for keep := last.Updated.Add(time.Hour); ; { // it stays as it is
		time.Sleep(time.Duration(1+w.intN(1200)) * time.Second)
		if time.Now().Add(5 * time.Minute).After(keep) {
			return
		}
		var again *tasks.Task
		w.tries(id, func(m *durable.Core) (err error) {
			again, err = m.Cancel(ctx, "p", id)
			return err
		})
		assert.Equal(t, last.Status, again.Status, id)
		assert.Equal(t, ended, w.events(id), "%s: it tells nothing more", id)
		if last.End != nil {
			assert.Equal(t, text(w.t, last), text(w.t, again), id)
		}
	}
}

func (w *world) events(id string) (events []durable.Logged) {
	w.tries(id, func(m *durable.Core) (err error) {
		events, err = m.Logged(context.Background(), "p", id, 0)
		return err
	})
	return events
}

// check looks at how a task has ended.
func (w *world) check(id, tool string, fail, idle, final bool, task *tasks.Task) {
	t := about{w.seen, id}
	events := w.events(id)
	asked := map[string]int{}
	var last uint64
	for _, e := range events {
		assert.Greater(t, e.N, last, "%s: numbers of events", id)
		last = e.N
		if e.Question != nil {
			asked[e.Question.ID]++
			assert.Equal(t, 1, asked[e.Question.ID], "%s: %q was asked twice", id, e.Question.ID)
		}
	}
	if assert.NotEmpty(t, events) {
		assert.True(t, events[len(events)-1].End, id)
		assert.LessOrEqual(t, last, task.Events, id)
		assert.Equal(t, task.Status, events[len(events)-1].Status, id)
	}
	bad := false
	switch task.Status {
	case tasks.Completed:
		if bad = task.End.Result.IsError; !bad {
			assert.Contains(t, text(w.t, task), "a first b left right c", id)
			assert.False(t, fail, id)
			assert.False(t, idle, id)
		}
	case tasks.Cancelled:
		assert.True(t, w.cancelled(id), id)
		bad = true
	case tasks.Failed:
		assert.True(t, idle, "%s (%s) has failed: %v", id, tool, task.Err)
		bad = true
	}
	deadline := time.Now().Add(24 * time.Hour)
	for {
		left, keys := w.desk.left(id)
		if !bad {
			assert.Equal(t, []string{"a", "b", "c"}, left, "%s: what it holds", id)
			assert.Len(t, keys, 3, "%s: keys", id)
			return
		}
		if len(left) == 0 || final && slices.Equal(left, []string{"a", "b"}) || final && w.desk.doubted(id, "b") && slices.Equal(left, []string{"b"}) {
			return
		}
		if !assert.True(t, time.Now().Before(deadline), "%s (%s) has left %v undone (%v)", id, tool, left, task.Status) {
			return
		}
		time.Sleep(10 * time.Minute)
	}
}

// TestModel lives through a week with servers that crash, stop, are slow, have wrong clocks and
// are replaced by newer ones, and with clients that answer late, twice, in part or never, and
// that cancel at any point. In every second week far more goes wrong. It takes one week, four where
// somebody asks for the tests that take long, and thirty with SAGA_NIGHTLY=1.
func TestModel(t *testing.T) {
	from, weeks := *modelFrom, *modelWeeks
	switch {
	case weeks > 0:
	case os.Getenv("SAGA_NIGHTLY") == "1" && !testing.Short():
		weeks = 30
	case testing.Short(), !longtests.Wanted():
		weeks = 1
	default:
		weeks = 4
	}
	for seed := from; seed < from+weeks; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { live(t, seed, *modelHarsh || seed%2 == 0) })
		})
	}
}

var (
	modelFrom  = flag.Uint64("model.from", 0, "the first `seed` of TestModel")
	modelWeeks = flag.Uint64("model.weeks", 0, "how many `weeks` TestModel lives through")
	modelHarsh = flag.Bool("model.harsh", false, "have far more go wrong in all weeks of TestModel")
)

func live(t *testing.T, seed uint64, harsh bool) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	w := &world{rig: newRig(t), rand: rnd, harsh: harsh, desk: newDesk(), revision: 1, asleep: make(map[string]time.Time), cancels: make(map[string]bool), handles: make(map[string]string)}
	w.seen = newWitness(t, w.keys)
	const places, tasksMade = 3, 60
	for place := range places {
		w.servers = append(w.servers, w.serve(place))
	}
	var servers sync.WaitGroup
	for place := range places {
		servers.Go(func() { w.keep(place) })
	}
	week := 7 * 24 * time.Hour
	time.AfterFunc(week/3, func() { w.mu.Lock(); w.revision = 2; w.mu.Unlock() })
	for n := range tasksMade {
		w.clients.Go(func() {
			time.Sleep(time.Duration(w.intN(int(week-48*time.Hour)/int(time.Second))) * time.Second)
			w.client(n)
		})
	}
	defer w.seen.tell()
	w.clients.Wait()
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	servers.Wait()
	for _, s := range w.servers {
		s.link.leaves.Store(true)
		s.link.mu.Lock()
		s.link.left = -1
		s.link.mu.Unlock()
	}
	w.close()
}
