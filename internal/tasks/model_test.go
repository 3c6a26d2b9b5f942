package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// desk is what effects act on: it knows keys, as services do.
type desk struct {
	mu   sync.Mutex
	rand *rand.Rand
	keys map[saga.Key]*held
}

type held struct {
	task, what string
	state      string // "held", "released" or "refused"
	calls      int
}

type hold struct {
	Task string `json:"task"`
	What string `json:"what"`
}

func (d *desk) do(ctx context.Context, key saga.Key, in hold) (string, error) {
	time.Sleep(d.pause())
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.keys[key]
	if h == nil {
		h = &held{task: in.Task, what: in.What, state: "held"}
		if d.rand != nil && d.rand.IntN(20) == 0 {
			h.state = "refused" // and for good: the same call may be under way elsewhere
		}
		d.keys[key] = h
	}
	h.calls++
	if h.state != "held" {
		return "", saga.Refused(errors.New("not today, or it was released"))
	}
	return in.What, nil
}

func (d *desk) undo(ctx context.Context, p saga.Performed[hold, string]) error {
	time.Sleep(d.pause())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rand != nil && d.rand.IntN(10) == 0 {
		return errors.New("try again")
	}
	h := d.keys[p.Key]
	if h == nil {
		h = &held{task: p.In.Task, what: p.In.What}
		d.keys[p.Key] = h
	}
	h.state = "released"
	return nil
}

// pause is how long something takes: mostly not long, now and then longer than a lease.
func (d *desk) pause() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rand == nil {
		return 0
	}
	switch d.rand.IntN(40) {
	case 0:
		return 10*time.Second + time.Duration(d.rand.IntN(30_000))*time.Millisecond
	case 1, 2, 3, 4:
		return time.Duration(d.rand.IntN(3000)) * time.Millisecond
	}
	return time.Duration(d.rand.IntN(20)) * time.Millisecond
}

type trip struct {
	Task string `json:"task"`
	Fail bool   `json:"fail"`
}

type tripState struct {
	Seen []string `json:"seen"`
}

type word struct {
	Word string `json:"word"`
}

var (
	askFirst = &steps.Form[word]{ID: "first", Message: "First?"}
	askLeft  = &steps.Form[word]{ID: "left", Message: "Left?"}
	askRight = &steps.Form[word]{ID: "right", Message: "Right?"}
)

// machine and flow are the tools of the model, in a revision. Both hold three things, ask
// three questions, sleep, and say what they have heard.
func (d *desk) machine(revision uint32) saga.Definition {
	type turn = saga.Turn[trip, tripState]
	effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
	do := func(t *turn, what string) error {
		got, err := saga.Do(t, effect, hold{t.Args.Task, what})
		t.State.Seen = append(t.State.Seen, got)
		return err
	}
	return saga.Machine[trip, tripState]{
		Info:     saga.Info{Name: "machine", Tasks: saga.Tasks{Mode: saga.TasksOptional}, Revision: revision, Asks: []steps.Question{askFirst, askLeft, askRight}, Effects: []saga.Declared{effect}},
		Upgrades: upgrades(revision),
		Start: func(t *turn) (saga.Next, error) {
			if err := do(t, "a"); err != nil {
				return nil, err
			}
			t.Progress(1, 4, "begun")
			return t.Goto("ask")
		},
		Steps: saga.Steps[trip, tripState]{
			"ask": func(t *turn) (saga.Next, error) { return t.Ask("one", askFirst) },
			"one": func(t *turn) (saga.Next, error) {
				w, err := askFirst.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.Seen = append(t.State.Seen, w.Word)
				time.Sleep(d.pause())
				if err := do(t, "b"); err != nil {
					return nil, err
				}
				return t.Sleep(time.Hour, "slept")
			},
			"slept": func(t *turn) (saga.Next, error) { t.Progress(2, 4, "slept"); return t.Ask("two", askLeft, askRight) },
			"two": func(t *turn) (saga.Next, error) {
				for _, q := range []*steps.Form[word]{askLeft, askRight} {
					w, err := q.Answer(t)
					if err != nil {
						return nil, err
					}
					t.State.Seen = append(t.State.Seen, w.Word)
				}
				if err := do(t, "c"); err != nil {
					return nil, err
				}
				if t.Args.Fail {
					return nil, saga.Failf("as asked")
				}
				return t.Textf("%s", strings.Join(t.State.Seen, " "))
			},
		},
	}
}

func upgrades(revision uint32) map[uint32]saga.Upgrade[tripState] {
	if revision == 1 {
		return nil
	}
	return map[uint32]saga.Upgrade[tripState]{1: saga.From(func(s tripState) (tripState, error) { return s, nil })}
}

func (d *desk) flow(revision uint32) saga.Definition {
	effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
	return saga.Flow[trip, string]{
		Info:   saga.Info{Name: "flow", Tasks: saga.Tasks{Mode: saga.TasksOptional}, Revision: revision, Asks: []steps.Question{askFirst, askLeft, askRight}, Effects: []saga.Declared{effect}},
		Oldest: 1,
		Run: func(r *saga.Run, in trip) (string, error) {
			var seen []string
			do := func(what string) error {
				got, err := saga.Do(r, effect, hold{in.Task, what})
				seen = append(seen, got)
				return err
			}
			ask := func(q *steps.Form[word]) error {
				w, err := saga.Ask(r, q)
				seen = append(seen, w.Word)
				return err
			}
			if err := do("a"); err != nil { //sagavet:ignore a task loses no response
				return "", err
			}
			if err := ask(askFirst); err != nil {
				return "", err
			}
			time.Sleep(d.pause()) //sagavet:ignore the work takes virtual time
			if err := do("b"); err != nil {
				return "", err
			}
			if err := r.Sleep(time.Hour); err != nil {
				return "", err
			}
			if err := ask(askLeft); err != nil {
				return "", err
			}
			if err := ask(askRight); err != nil {
				return "", err
			}
			if err := do("c"); err != nil {
				return "", err
			}
			if in.Fail {
				return "", saga.Failf("as asked")
			}
			return strings.Join(seen, " "), nil
		},
	}
}

// world is servers that come and go, and clients.
type world struct {
	*rig
	rand *rand.Rand
	desk *desk

	mu       sync.Mutex
	servers  []*server
	revision uint32
	over     bool
}

type server struct {
	m    *tasks.Manager
	link *link
	stop func()
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

// serve begins a server, with a clock of its own.
func (w *world) serve(place int) *server {
	w.mu.Lock()
	skew := time.Duration(w.rand.IntN(10_000)-5000) * time.Millisecond
	calls := -1
	if w.rand.IntN(3) > 0 {
		calls = 1 + w.rand.IntN(400)
	}
	revision := w.revision
	if place > 0 && w.rand.IntN(3) == 0 {
		revision = 1 // an old one still runs
	}
	l := newLink(w.store, w.rand, calls, []float64{0, 0, 0.01, 0.05}[w.rand.IntN(4)])
	w.mu.Unlock()
	c, err := tokens.New(w.keys, tokens.Options{Audience: "test"})
	require.NoError(w.t, err)
	registry, err := engine.NewRegistry(w.desk.machine(revision), w.desk.flow(revision))
	require.NoError(w.t, err)
	runner, err := turns.New(turns.Config{
		Registry: registry, Codec: c, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(skew) }, Ledger: l, UndoGrace: turns.DefaultUndoGrace,
	})
	require.NoError(w.t, err)
	m, err := tasks.New(tasks.Config{Turns: runner, Workers: 8, Attempts: 1000})
	require.NoError(w.t, err)
	return &server{m: m, link: l, stop: w.work(m)}
}

// any returns a server that is not dead, as far as clients know.
func (w *world) any() *server {
	for {
		w.mu.Lock()
		s := w.servers[w.rand.IntN(len(w.servers))]
		w.mu.Unlock()
		if !s.link.dead.Load() {
			return s
		}
		time.Sleep(time.Second)
	}
}

// keep has a place be taken by one server after the other.
func (w *world) keep(place int) {
	for {
		w.mu.Lock()
		old, life := w.servers[place], w.rand.IntN(12*60)
		w.mu.Unlock()
		for ; life >= 0 && !old.link.dead.Load(); life-- {
			time.Sleep(time.Minute)
		}
		w.mu.Lock()
		over := w.over
		w.mu.Unlock()
		if over {
			return
		}
		if w.intN(2) == 0 && !old.link.dead.Load() {
			old.stop() // gracefully
		} else {
			old.link.mu.Lock()
			old.link.left = 0
			old.link.mu.Unlock()
			go old.stop()
			time.Sleep(time.Duration(w.intN(60)) * time.Second)
		}
		next := w.serve(place)
		w.mu.Lock()
		w.servers[place] = next
		w.mu.Unlock()
	}
}

// tries does something on any server until one can.
func (w *world) tries(do func(m *tasks.Manager) error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := do(w.any().m)
		late := ctx.Err()
		cancel()
		if err == nil || late == nil && !errors.Is(err, turns.ErrLedger) && !errors.Is(err, turns.ErrNewer) {
			require.NoError(w.t, err)
			return
		}
		time.Sleep(time.Second)
	}
}

// client drives a task and checks all that can be seen of it.
func (w *world) client(n int) {
	id, tool, fail := fmt.Sprint("task", n), []string{"machine", "flow"}[w.intN(2)], w.intN(10) == 0
	cancelAt, idle, asCall := -1, w.intN(15) == 0, w.intN(2) == 0
	if w.intN(4) == 0 {
		cancelAt = w.intN(12)
	}
	ctx := context.Background()
	begun := time.Now()
	w.tries(func(m *tasks.Manager) error {
		s := call(m, tool, fmt.Sprintf(`{"task":%q,"fail":%v}`, id, fail))
		s.ID = id
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
	var last *tasks.Task
	for look := 0; ; look++ {
		forgotten := false
		w.tries(func(m *tasks.Manager) (err error) {
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
			assert.Greater(w.t, time.Since(begun), 24*time.Hour, "%s is lost", id)
			return
		}
		if last.Status.Ended() {
			break
		}
		if !assert.Less(w.t, time.Since(begun), 26*time.Hour, "%s (%s) is stuck: %v", id, tool, last) {
			return
		}
		if look == cancelAt {
			w.tries(func(m *tasks.Manager) error { _, err := m.Cancel(ctx, "p", id); return err })
		}
		if last.Status == tasks.InputRequired && !idle && w.intN(3) > 0 {
			var answers []steps.Answer
			for _, q := range last.Questions {
				if w.intN(3) > 0 {
					assert.False(w.t, answered[q.ID], "%s: %q is asked again", id, q.ID)
					answers = append(answers, accept(q.ID, fmt.Sprintf(`{"word":%q}`, q.ID)))
				}
			}
			for range 1 + w.intN(2) { // perhaps twice
				w.tries(func(m *tasks.Manager) error { _, err := m.Answer(ctx, "p", id, answers); return err })
			}
			for _, a := range answers {
				answered[a.StepID] = true
			}
		}
		time.Sleep(time.Duration(1+w.intN([]int{3, 60, 600, 2400}[w.intN(4)])) * time.Second)
	}
	w.check(id, tool, fail, cancelAt >= 0, idle, last)
	for keep := last.Updated.Add(time.Hour); ; { // it stays as it is
		time.Sleep(time.Duration(1+w.intN(1200)) * time.Second)
		if time.Now().Add(5 * time.Minute).After(keep) {
			return
		}
		var again *tasks.Task
		w.tries(func(m *tasks.Manager) (err error) {
			again, err = m.Cancel(ctx, "p", id)
			return err
		})
		assert.Equal(w.t, last.Status, again.Status, id)
		assert.Equal(w.t, last.Events, again.Events, id)
		if last.End != nil {
			assert.Equal(w.t, text(w.t, last), text(w.t, again), id)
		}
	}
}

// check looks at how a task has ended.
func (w *world) check(id, tool string, fail, cancelled, idle bool, task *tasks.Task) {
	t := w.t
	var events []tasks.Event
	w.tries(func(m *tasks.Manager) (err error) {
		events, err = m.Events(context.Background(), "p", id, 0, 1000)
		return err
	})
	asked := map[string]int{}
	for i, e := range events {
		assert.Equal(t, uint64(i+1), e.N, "%s: numbers of events", id)
		if e.Kind == tasks.EventQuestion {
			asked[e.Question.ID]++
			assert.Equal(t, 1, asked[e.Question.ID], "%s: %q was asked twice", id, e.Question.ID)
		}
	}
	if assert.NotEmpty(t, events) {
		assert.Equal(t, tasks.EventStatus, events[len(events)-1].Kind, id)
		assert.Equal(t, task.Status, events[len(events)-1].Status, id)
	}
	bad := false
	switch task.Status {
	case tasks.Completed:
		if bad = task.End.Result.IsError; !bad {
			assert.Contains(t, text(t, task), "a first b left right c", id)
			assert.False(t, fail, id)
			assert.False(t, idle, id)
		}
	case tasks.Cancelled:
		assert.True(t, cancelled, id)
		bad = true
	case tasks.Failed:
		assert.True(t, idle || time.Since(task.Created) > 23*time.Hour, "%s (%s) has failed: %v", id, tool, task.Err)
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
		if len(left) == 0 {
			return
		}
		if !assert.True(t, time.Now().Before(deadline), "%s (%s) has left %v undone (%v)", id, tool, left, task.Status) {
			return
		}
		time.Sleep(10 * time.Minute)
	}
}

// left is what a task holds, and all keys that it has used.
func (d *desk) left(id string) (what []string, keys []saga.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, h := range d.keys {
		if h.task == id {
			if keys = append(keys, key); h.state == "held" {
				what = append(what, h.what)
			}
		}
	}
	slices.Sort(what)
	return what, keys
}

// TestModel lives through a week with servers that crash, stop, are slow, have wrong clocks and
// are replaced by newer ones, and with clients that answer late, twice, in part or never, and
// that cancel at any point. SAGA_NIGHTLY=1 has it live through thirty weeks.
func TestModel(t *testing.T) {
	seeds := uint64(3)
	switch {
	case testing.Short():
		seeds = 1
	case os.Getenv("SAGA_NIGHTLY") == "1":
		seeds = 30
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { live(t, seed) })
		})
	}
}

func live(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	w := &world{rig: newRig(t), rand: rnd, desk: &desk{rand: rand.New(rand.NewPCG(seed, 8)), keys: map[saga.Key]*held{}}, revision: 1}
	const places, tasksMade = 3, 60
	for place := range places {
		w.servers = append(w.servers, w.serve(place))
	}
	var servers, clients sync.WaitGroup
	for place := range places {
		servers.Go(func() { w.keep(place) })
	}
	week := 7 * 24 * time.Hour
	time.AfterFunc(week/3, func() { w.mu.Lock(); w.revision = 2; w.mu.Unlock() })
	for n := range tasksMade {
		clients.Go(func() {
			time.Sleep(time.Duration(w.intN(int(week-48*time.Hour)/int(time.Second))) * time.Second)
			w.client(n)
		})
	}
	clients.Wait()
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	servers.Wait()
	for _, s := range w.servers {
		s.link.mu.Lock()
		s.link.left = -1
		s.link.mu.Unlock()
	}
	w.close()
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
