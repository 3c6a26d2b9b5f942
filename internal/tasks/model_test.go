package tasks_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// world is servers that come and go, and clients.
type world struct {
	*rig
	rand *rand.Rand
	desk *desk
	seen *witness

	harsh bool // far more goes wrong

	mu       sync.Mutex
	servers  []*server
	revision uint32
	over     bool
	asleep   map[string]time.Time // since when at least a task sleeps
	cancels  map[string]bool      // tasks that somebody wants cancelled
	clients  sync.WaitGroup
}

// patience is how long the tasks of some clients go on without them.
const patience = 3 * time.Hour

// lease is how long a task is a server's that does not show that it is alive.
const lease = 10 * time.Second

// maxSkew is how wrong the clocks of servers are.
const maxSkew = 5 * time.Second

type server struct {
	m        *tasks.Manager
	link     *link
	revision uint32
	stop     func()
}

// rarely is in how many times something happens that happens once in n times, or more often in a
// harsh world.
func rarely(n int, harsh bool) int {
	if harsh {
		return n/3 + 1
	}
	return n
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

// sleeps and wakes are called by tools around their sleep.
func (w *world) sleeps(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, asleep := w.asleep[id]; !asleep {
		w.asleep[id] = time.Now()
	}
}

func (w *world) wakes(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A server that could not ask for the time yet goes by its own clock.
	assert.Less(about{w.seen, id}, time.Hour-maxSkew, time.Since(w.asleep[id]), "%s woke too early", id)
}

// cancel has a task cancelled by somebody, soon.
func (w *world) cancel(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels[id] = true
	w.clients.Go(func() {
		time.Sleep(time.Duration(w.intN(20_000)) * time.Millisecond)
		w.tries(id, func(m *tasks.Manager) error {
			_, err := m.Cancel(context.Background(), "p", id)
			if errors.Is(err, tasks.ErrNotFound) {
				return nil
			}
			return err
		})
	})
}

func (w *world) cancelled(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancels[id]
}

// serve begins a server, with a clock of its own.
func (w *world) serve(place int) *server {
	w.mu.Lock()
	skew := time.Duration(w.rand.Int64N(int64(2*maxSkew))) - maxSkew
	calls := -1
	if w.rand.IntN(3) > 0 {
		calls = 1 + w.rand.IntN(400)
	}
	revision := w.revision
	if place > 0 && w.servers[0].revision == revision && w.rand.IntN(3) == 0 {
		revision = 1 // an old one still runs, but not alone: nobody could go on with what is newer
	}
	faults := []float64{0, 0, 0.01, 0.05}
	if w.harsh {
		faults = []float64{0, 0.05, 0.1, 0.2}
	}
	l := newLink(w.store, w.rand, calls, faults[w.rand.IntN(len(faults))])
	w.mu.Unlock()
	l.harsh, l.seen, l.name = w.harsh, w.seen, fmt.Sprintf("%d.%p", place, l)
	s := &server{link: l, revision: revision}
	here := &clerk{w, s}
	c, err := tokens.New(w.keys, tokens.Options{Audience: "test"})
	require.NoError(w.t, err)
	registry, err := engine.NewRegistry(here.machine(revision), here.flow(revision))
	require.NoError(w.t, err)
	runner, err := turns.New(turns.Config{
		Registry: registry, Codec: c, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(skew) }, Ledger: l, UndoGrace: turns.DefaultUndoGrace,
	})
	require.NoError(w.t, err)
	m, err := tasks.New(tasks.Config{Turns: runner, Workers: 8, Attempts: 1000, Lease: lease})
	require.NoError(w.t, err)
	works := make(chan none)
	var stop func()
	s.m, s.stop = m, func() { <-works; stop() } // what works may want it stopped before this goes on
	stop = w.work(m)
	close(works)
	return s
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
		for ; life >= 0 && !old.link.dead.Load() && !old.link.leaves.Load(); life-- {
			time.Sleep(time.Minute)
		}
		w.mu.Lock()
		over := w.over
		w.mu.Unlock()
		if over {
			return
		}
		old.link.leaves.Store(true)
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
func (w *world) tries(id string, do func(m *tasks.Manager) error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := do(w.any().m)
		late := ctx.Err()
		cancel()
		if err == nil || late == nil && !errors.Is(err, turns.ErrLedger) && !errors.Is(err, turns.ErrNewer) {
			if !assert.NoError(about{w.seen, id}, err, id) {
				runtime.Goexit()
			}
			return
		}
		w.seen.note(id, "a client fails: %v", err)
		time.Sleep(time.Second)
	}
}

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
	w.tries(id, func(m *tasks.Manager) error {
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
		w.tries(id, func(m *tasks.Manager) (err error) {
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
			w.tries(id, func(m *tasks.Manager) error { _, err := m.Renew(ctx, "p", id, patience, nil); return err })
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
				w.tries(id, func(m *tasks.Manager) (err error) { given, err = m.Answer(ctx, "p", id, answers); return err })
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
	for keep := last.Updated.Add(time.Hour); ; { // it stays as it is
		time.Sleep(time.Duration(1+w.intN(1200)) * time.Second)
		if time.Now().Add(5 * time.Minute).After(keep) {
			return
		}
		var again *tasks.Task
		w.tries(id, func(m *tasks.Manager) (err error) {
			again, err = m.Cancel(ctx, "p", id)
			return err
		})
		assert.Equal(t, last.Status, again.Status, id)
		assert.Equal(t, last.Events, again.Events, id)
		if last.End != nil {
			assert.Equal(t, text(w.t, last), text(w.t, again), id)
		}
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
	w := &world{rig: newRig(t), rand: rnd, harsh: harsh, desk: newDesk(), revision: 1, asleep: make(map[string]time.Time), cancels: make(map[string]bool)}
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

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
