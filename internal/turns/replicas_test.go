package turns

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
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
	*Runner
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

var errRefused = errors.New("connection refused")

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
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	err := f()
	return errors.Join(err, p.gate())
}

// gated is the store as a process reaches it.
type gated struct {
	ledger.Store
	p *process
}

func (g gated) Load(ctx context.Context, key string) (r *ledger.Record, err error) {
	err = g.p.reach(ctx, func() error { r, err = g.Store.Load(ctx, key); return err })
	return r, err
}

func (g gated) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	if err := g.p.gate(); err != nil {
		return err
	}
	g.p.play.wrote(r.Key)
	sent := *r
	if g.p.play.outage() && r.Owner != "" {
		switch g.p.draw(4) {
		case 0:
			return errRefused
		case 1: // it is lost on the way
			return ledger.ErrUnknown
		case 2: // its answer is lost
			_ = g.Store.Swap(ctx, &sent, items...)
			return ledger.ErrUnknown
		default: // it is late
			late := time.Duration(g.p.draw(int(5 * time.Second)))
			g.p.play.late.Go(func() {
				time.Sleep(late)
				_ = g.Store.Swap(context.Background(), &sent, items...)
			})
			return ledger.ErrUnknown
		}
	}
	err := g.Store.Swap(ctx, &sent, items...)
	if gone := g.p.gate(); gone != nil {
		return gone
	}
	if err == nil {
		r.Rev = sent.Rev
	}
	return err
}

func (g gated) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) {
		if err := g.p.reach(ctx, func() error { return nil }); err != nil {
			yield(nil, err)
			return
		}
		for r, err := range g.Store.Watch(ctx, key, after) {
			if gone := g.p.gate(); gone != nil {
				r, err = nil, gone
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (g gated) Take(ctx context.Context, t ledger.Take) (list []*ledger.Record, err error) {
	err = g.p.reach(ctx, func() error { list, err = g.Store.Take(ctx, t); return err })
	return list, err
}

func (g gated) Count(ctx context.Context, owner string, most int) (n int, err error) {
	err = g.p.reach(ctx, func() error { n, err = g.Store.Count(ctx, owner, most); return err })
	return n, err
}

// Now is the store's clock, unless leases are to go by each server's own.
func (g gated) Now(ctx context.Context) (time.Time, error) {
	if b, ok := g.Store.(*brokenStore); ok && b.ownClocks {
		return g.p.clock(), nil
	}
	return g.Store.Now(ctx)
}

// Forget is the schedule's to call.
func (g gated) Forget(context.Context, int) (int, error) { return 0, nil }

// What all schedules share: making it takes longer than a schedule.
var modelShared = sync.OnceValues(func() (*engine.Registry, *tokens.Codec) {
	keys, err := codec.NewKeyset()
	must(err)
	sealer, err := tokens.New(keys, tokens.Options{Audience: "here", TTL: modelTTL, Skew: modelSkew})
	must(err)
	registry, err := engine.NewRegistry(modelTool())
	must(err)
	return registry, sealer
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// start starts a process with its worker.
func (x *played) start(slot int, skew time.Duration) *process {
	registry, sealer := modelShared()
	x.started++
	p := &process{play: x, slot: slot, skew: skew, noise: rand.New(rand.NewPCG(x.seed, uint64(x.started)))}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), processKey{}, p))
	p.stop = cancel
	runner, err := New(Config{
		Registry: registry, Codec: sealer, Log: slog.New(slog.NewTextHandler(logTo{p}, nil)), Timeout: time.Minute, UndoGrace: modelGrace,
		Now: p.clock, Ledger: gated{x.store, p},
		NewID: func() (id tokens.ID) {
			copy(id[:], fmt.Sprintf("%d.%d.%d", x.seed%1e6, p.slot, p.draw(1e9)))
			return id
		},
	})
	must(err)
	p.Runner = runner
	x.workers.Go(func() { _ = p.Work(context.WithValue(ctx, workerKey{}, true)) })
	return p
}
