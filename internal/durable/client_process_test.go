package durable_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Times of the servers of a schedule: short, so that much can happen within them.
const (
	modelTTL   = 2 * time.Minute
	modelSkew  = 30 * time.Second
	modelGrace = 20 * time.Minute
)

// process is one server of a schedule. All that it does to others passes its gate, where it
// takes its time, stands still for a while, or dies: what it does after that changes nothing.
type process struct {
	*turns.Runner
	core *durable.Core
	play *played
	slot int
	skew time.Duration

	mu      sync.Mutex
	noise   *rand.Rand
	gates   int // that were passed
	dieAt   int
	pauseAt int
	pause   time.Duration
	freeze  bool
	paused  time.Time // until then
	stood   time.Time // since then its clock stands still, for as long as it is paused and a little longer
	still   bool
	died    bool
	stop    func()
}

type (
	processKey struct{}
	workerKey  struct{}
)

func (p *process) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.died
}

// kill is the end of the process.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.died {
		p.died = true
		p.stop()
	}
}

// gate is passed before and after everything that others could see. No two are passed at
// once, as each takes another time.
func (p *process) gate() error {
	p.mu.Lock()
	p.gates++
	switch p.gates {
	case p.dieAt:
		if !p.died {
			p.died = true
			p.stop()
		}
	case p.pauseAt:
		p.stood, p.still, p.paused = time.Now(), p.freeze, time.Now().Add(p.pause)
	}
	took := time.Duration(p.noise.Int64N(int64(5 * time.Millisecond)))
	if p.play.slow && p.noise.IntN(8) == 0 {
		took = time.Duration(p.noise.Int64N(int64(2 * time.Second)))
	}
	p.mu.Unlock()
	time.Sleep(took)
	for {
		p.mu.Lock()
		died, rest := p.died, time.Until(p.paused)
		p.mu.Unlock()
		if died {
			return errDead
		}
		if rest <= 0 {
			return nil
		}
		time.Sleep(rest + time.Duration(p.slot))
	}
}

// clock is what the process takes for the time: a virtual machine that is paused does not notice
// at first.
func (p *process) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.still && now.Before(p.paused.Add(2*time.Second)) {
		now = p.stood
	}
	return now.Add(p.skew)
}

// draw is a random number below n.
func (p *process) draw(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.noise.IntN(n)
}

// logTo has what operators are told among what happens.
type logTo struct{ p *process }

func (l logTo) Write(b []byte) (int, error) {
	l.p.play.note("log of %d: %s", l.p.slot, b)
	return len(b), nil
}

// reach is an operation of the store. To the worker's own loop an outage is an operation that
// takes long: after an error it would pause for a time that is really random.
func (p *process) reach(ctx context.Context, f func() error) error {
	if err := p.gate(); err != nil {
		return err
	}
	for p.play.outage() {
		if ctx.Value(workerKey{}) == nil {
			return errRefused
		}
		time.Sleep(time.Second)
	}
	err := f()
	return errors.Join(err, p.gate())
}

// gated is the store as a process reaches it.
type gated struct {
	storetest.Intercept
	p *process
}

func newGated(s store.Store, p *process) *gated {
	g := &gated{p: p}
	g.Store, g.Around = s, g.around
	return g
}

func (g *gated) around(ctx context.Context, c storetest.Call, next func() error) error {
	switch c.Method {
	case "Listen":
		return next()
	case "Forget": // is the schedule's to call
		return nil
	}
	return g.p.reach(ctx, next)
}

func (g *gated) Write(ctx context.Context, r *store.Record, c store.Change) error {
	sent := *r
	err := g.write(func(ctx context.Context) error { return g.Store.Write(ctx, &sent, c) })
	if err == nil {
		*r = sent
	}
	return err
}

func (g *gated) Signal(ctx context.Context, id store.ID, head uint64, items ...store.Item) error {
	return g.write(func(ctx context.Context) error { return g.Store.Signal(ctx, id, head, items...) })
}

func (g *gated) write(f func(ctx context.Context) error) error {
	ctx := context.Background()
	if err := g.p.gate(); err != nil {
		return err
	}
	if g.p.play.outage() {
		switch g.p.draw(4) {
		case 0:
			return errRefused
		case 1: // it is lost on the way
			return store.ErrUnknown
		case 2: // its answer is lost
			_ = f(ctx)
			return store.ErrUnknown
		default: // it is late
			late := time.Duration(g.p.draw(5000)) * time.Millisecond
			g.p.play.late.Go(func() {
				time.Sleep(late)
				_ = f(ctx)
			})
			return store.ErrUnknown
		}
	}
	err := f(ctx)
	if gone := g.p.gate(); gone != nil {
		return gone
	}
	return err
}
