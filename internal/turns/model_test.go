package turns

import (
	"context"
	"errors"
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
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The contract, whatever happens: a turn is recorded once, and everybody who asks for it is
// told the same; what is spent is refused; an end is final; what a saga did is there as a whole
// if it ended well and gone otherwise, once its time is over; nothing is forgotten before that,
// and everything after. SAGA_NIGHTLY=1 plays a hundred thousand schedules.
func TestModel(t *testing.T) {
	rounds := 2
	if longtests.Wanted() {
		rounds = 4
	}
	if os.Getenv("SAGA_NIGHTLY") == "1" && !raceEnabled {
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
	store      ledger.Store
	behind     *behind
	servers    []*process
	started    int

	workers, clients, late sync.WaitGroup

	mu        sync.Mutex
	out       time.Time // until then the store is out of reach now and then
	calm      bool      // nothing was disturbed
	customers []*customer
	keys      map[string]bool // of the records written
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

func (x *played) wrote(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.keys[key] = true
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
	policy Policy
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
	end          string // "well", "badly", or "at what is final": badly, but there is no way back
	text, report string // of the end that is well, and of one that came too late
	// outstanding are the effects that could not be undone, as the client was told last.
	outstanding []string
}

type ask struct {
	answers []steps.Answer
	digest  string
}

type outcomeOf struct{ digest, text string }

// playSchedule runs a schedule, on a store that breaks may break, and returns what was wrong.
func playSchedule(t *testing.T, s schedule, breaks func(ledger.Store) ledger.Store) (wrong []string) {
	modelShared()
	synctest.Test(t, func(t *testing.T) {
		x := &played{schedule: s, seed: s.Seed, slow: s.Slow, long: s.Long, calm: true, keys: map[string]bool{}, begun: time.Now()}
		memory := ledger.NewMemory(ledger.MemoryOptions{})
		defer memory.Close()
		if x.store = memory; breaks != nil {
			x.store = breaks(memory)
		}
		x.behind = &behind{done: map[saga.Key]string{}, undone: map[saga.Key]bool{}, calls: map[string]int{}}
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

// heal ends all disturbances, and waits for the clients that are there.
func (x *played) heal() {
	x.mu.Lock()
	x.out, x.long = time.Time{}, false
	x.mu.Unlock()
	x.behind.mu.Lock()
	x.behind.unwilling, x.behind.flaky, x.behind.refuses, x.behind.unreached = time.Time{}, time.Time{}, 0, 0
	x.behind.mu.Unlock()
	for _, p := range x.servers {
		p.mu.Lock()
		p.dieAt, p.pauseAt, p.paused = 0, 0, time.Time{}
		p.mu.Unlock()
	}
	x.servers = append(x.servers, x.start(len(x.servers), 0))
	x.late.Wait()
	x.clients.Wait()
}

// finish has every client go on with what it knows, as if nothing had happened: what its saga
// was about to do, it does.
func (x *played) finish() {
	p := x.servers[len(x.servers)-1]
	ctx := context.WithValue(context.Background(), processKey{}, p)
	for i, c := range x.customers {
		if len(c.known) == 0 || c.end != "" || i%3 == 2 {
			continue // or it never comes back
		}
		token, o := x.newest(ctx, p, c)
		if token == "" || !time.Now().Before(o.expires) {
			continue
		}
		for range 4 {
			answers, sure := c.answers(token, 3), !c.forced
			if sent := c.asked[token]; len(sent) > 0 {
				answers, sure = sent[0].answers, sure && len(sent) == 1
			}
			digest := x.sends(c, token, answers)
			end, err := p.Resume(ctx, c.request(p, token, answers))
			for tries := 0; tries < 20 && (errors.Is(err, ErrLedger) || errors.As(err, new(*engine.UnsettledError))); tries++ {
				time.Sleep(time.Second)
				end, err = p.Resume(ctx, c.request(p, token, answers))
			}
			if err != nil && errors.As(err, new(*engine.AnswerError)) {
				c.asked[token] = nil
				continue
			}
			if err != nil {
				if sure {
					x.breaks("saga %s does not go on from its newest token, though nobody else went on from there: %v", c.name, err)
				}
				break
			}
			x.learns(ctx, p, c, token, digest, end, err)
			if token = end.Token; token == "" {
				break
			}
		}
	}
}

// newest is the newest token that the client knows.
func (x *played) newest(ctx context.Context, p *process, c *customer) (token string, o *opened) {
	for _, known := range c.known {
		q := c.request(p, known, nil)
		q.own = true
		if found, err := p.open(ctx, &q, true); err == nil && (o == nil || found.pos.Turn > o.pos.Turn) {
			token, o = known, found
		}
	}
	return token, o
}
