package durable_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// schedule is what happens in a run, and when: clients that call, resume, repeat, fork, cancel
// and go away; servers that die, stand still and have clocks of their own; a store and effects
// that fail. The rest is worked out from Seed, so the same schedule runs in the same way, but for
// what happens at the very same moment: what was found once may have to be played again and again.
type schedule struct {
	Seed  uint64
	Skews []int // of the servers, in seconds
	// Slow: everything may take a second or two. Long: effects may take longer than a lease.
	Slow, Long bool
	Events     []event
}

// event is one of eventKinds, after a pause. What else the numbers mean depends on it.
type event struct {
	Kind    string
	Wait    time.Duration
	A, B, C int
}

var eventKinds = []string{
	"call", "call", "call", "resume", "resume", "resume", "resume", "resume", "resume", "resume", "repeat", "repeat",
	"cancel", "kill", "kill", "pause", "pause", "freeze", "outage", "unwilling", "flaky", "refuse", "forget", "late", "undo now", "hang up",
}

// livingKinds are those at which no server dies, nor stands still, and the store is there.
var livingKinds = []string{"call", "call", "resume", "resume", "repeat", "cancel", "unwilling", "flaky", "forget", "late", "undo now", "hang up", "hang up"}

var eventWaits = []time.Duration{
	0, time.Millisecond, 3 * time.Millisecond, 8 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, time.Second, 4 * time.Second,
	9 * time.Second, 11 * time.Second, time.Minute, modelTTL, modelTTL + modelSkew, 10 * time.Minute,
}

func schedules() *rapid.Generator[schedule] {
	number := rapid.IntRange(0, 1<<16)
	one := func(kinds []string) *rapid.Generator[event] {
		return rapid.Custom(func(t *rapid.T) event {
			return event{
				rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.SampledFrom(eventWaits).Draw(t, "wait"),
				number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c"),
			}
		})
	}
	return rapid.Custom(func(t *rapid.T) schedule {
		return schedule{
			Seed:  rapid.Uint64().Draw(t, "seed"),
			Skews: rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 2, -2, 14, -14}), 2, 3).Draw(t, "skews"),
			Slow:  rapid.Bool().Draw(t, "slow"), Long: rapid.Bool().Draw(t, "long"),
			Events: rapid.SliceOfN(one(rapid.SampledFrom([][]string{eventKinds, eventKinds, livingKinds}).Draw(t, "kinds")), 3, 30).Draw(t, "events"),
		}
	})
}

// The contract, whatever happens: a turn is recorded once, and everybody who asks for it is
// told the same; what is spent is refused; an end is final; what a saga did is there as a whole
// if it ended well and gone otherwise, once its time is over; nothing is forgotten before that,
// and everything after. SAGA_NIGHTLY=1 plays a hundred thousand schedules.
func TestModelOfClients(t *testing.T) {
	rounds := 2
	if longtests.Wanted() {
		rounds = 4
	}
	if os.Getenv("SAGA_NIGHTLY") == "1" && !modelRaces {
		rounds = 1000
	}
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			if wrong := playSchedule(t, schedules().Draw(rt, "schedule"), nil); len(wrong) > 0 {
				rt.Fatalf("%s\n%s", wrong[0], strings.Join(wrong, "\n"))
			}
		})
	}
}

// played is a run of a schedule.
type played struct {
	schedule
	seed       uint64
	slow, long bool
	store      store.Store
	behind     *behind
	servers    []*process
	started    int

	workers, clients, late sync.WaitGroup

	mu        sync.Mutex
	out       time.Time // until then the store is out of reach now and then
	calm      bool      // nothing was disturbed
	lives     bool      // nothing was, but clients that hang up and effects that fail
	customers []*customer
	wrong     []string
	begun     time.Time
	trace     []string // what happened, to be read when something is wrong
}

// notes writes down what happens. The lock is held.
func (x *played) notes(format string, args ...any) {
	x.trace = append(x.trace, fmt.Sprintf("%14v ", time.Since(x.begun))+fmt.Sprintf(format, args...))
}

func (x *played) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes(format, args...)
}

func (x *played) breaks(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.breaksLocked(format, args...)
}

func (x *played) breaksLocked(format string, args ...any) {
	x.notes("WRONG "+format, args...)
	if len(x.wrong) < 5 {
		x.wrong = append(x.wrong, fmt.Sprintf(format, args...))
	}
}

func (x *played) disturbed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calm = false
}

// outage reports whether an operation of the store fails.
func (x *played) outage() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Now().Before(x.out)
}

// customer is a saga as its client knows it.
type customer struct {
	name   string
	args   modelArgs
	policy turns.Policy
	key    string
	known  []string          // tokens, in the order of learning
	waits  map[string]string // what a token is asked
	// late is when some clock may say that a token came too late. Whoever brings it then is told
	// how the saga ended, whatever the answers.
	late map[string]time.Time
	// asked are the requests sent, by token ("" is the call), and told what came of them.
	asked map[string][]ask
	told  map[string]outcomeOf
	// went: it was resumed, or cancelled or undone by hand, so it may be elsewhere. forced: by
	// hand.
	went, forced bool
	end          string             // "well", "badly", or "at what is final": badly, but there is no way back
	text, report string             // of the end that is well, and of one that came too late
	undo         *engine.UndoReport // of the latter
	// outstanding are the effects that could not be undone, as the client was told last.
	outstanding []string
}

type ask struct {
	answers []steps.Answer
	digest  string
}

type outcomeOf struct{ digest, text string }

// playSchedule runs a schedule, on a store that breaks may break, and returns what was wrong.
func playSchedule(t *testing.T, s schedule, breaks func(store.Store) store.Store) (wrong []string) {
	modelShared()
	synctest.Test(t, func(t *testing.T) {
		x := &played{schedule: s, seed: s.Seed, slow: s.Slow, long: s.Long, calm: true, lives: !s.Long, begun: time.Now()}
		memory := store.NewMemory(nil)
		defer memory.Close()
		if x.store = memory; breaks != nil {
			x.store = breaks(memory)
		}
		x.behind = &behind{done: map[saga.Key]string{}, undone: map[saga.Key]bool{}, refused: map[saga.Key]bool{}, calls: map[string]int{}, begun: map[saga.Key]bool{}}
		for i, skew := range s.Skews {
			x.servers = append(x.servers, x.start(i, time.Duration(skew)*time.Second))
		}
		for _, e := range s.Events {
			time.Sleep(e.Wait + 1)
			x.happens(e)
		}
		x.heal()
		x.finish()
		x.settle(memory)
		if wrong = x.wrong; len(wrong) > 0 {
			wrong = append(wrong, x.trace...)
		}
	})
	return wrong
}
