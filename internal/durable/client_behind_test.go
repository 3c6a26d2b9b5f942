package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// behind is the system behind the effects: it performs each key once, and never after that
// was undone.
type behind struct {
	mu     sync.Mutex
	done   map[saga.Key]string // of whom, and what: "3 hold"
	undone map[saga.Key]bool
	// refused are keys that stay refused, as their effect has no Undo: else a call that is under way when
	// the same is refused elsewhere could not be called off.
	refused map[saga.Key]bool
	calls   map[string]int // by "3 hold", "3 undo hold"
	// begun are the keys of effects that turns have begun, and hangsUp says that the client of the next one hangs up.
	begun   map[saga.Key]bool
	hangsUp bool
	// unwilling and flaky: until then nothing is undone, and some effects fail.
	unwilling, flaky time.Time
	// refuses is how many more payments are refused. If fatal is set, the server dies that many
	// gates later, which is mostly while it undoes what was to be paid for.
	refuses, fatal int
	// unreached is how many more calls do not arrive that somebody has made before.
	unreached int
}

func (b *behind) is(what string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.done {
		if w == what {
			return true
		}
	}
	return false
}

func (b *behind) do(ctx context.Context, key saga.Key, effect, who string) error {
	p := ctx.Value(processKey{}).(*process)
	p.play.begins(ctx, key, who+" "+effect)
	if err := p.gate(); err != nil {
		return err
	}
	p.play.mu.Lock()
	long := p.play.long
	p.play.mu.Unlock()
	if long && p.draw(4) == 0 {
		time.Sleep(12 * time.Second)
	}
	fails := p.draw(4)
	what := who + " " + effect
	b.mu.Lock()
	flaky := time.Now().Before(b.flaky)
	switch {
	case flaky && fails == 0:
		b.mu.Unlock()
		return errRefused
	case b.refused[key]:
		b.mu.Unlock()
		return saga.Refused(errors.New("as before"))
	case flaky && fails == 2 && b.done[key] == "": // what was done with a key is never refused
		b.refused[key] = effect == "pay"
		b.mu.Unlock()
		return saga.Refused(errors.New("sold out"))
	}
	if b.unreached > 0 && b.done[key] != "" {
		b.unreached--
		b.mu.Unlock()
		return errRefused
	}
	if b.refuses > 0 && slices.Contains(payments, effect) && b.done[key] == "" {
		b.refuses--
		b.refused[key] = effect == "pay"
		fatal := b.fatal
		b.mu.Unlock()
		if fatal > 0 {
			p.mu.Lock()
			p.dieAt = p.gates + fatal
			p.mu.Unlock()
		}
		return saga.Refused(errors.New("not today"))
	}
	b.calls[what]++
	if b.undone[key] {
		b.mu.Unlock()
		return saga.Refused(errors.New("it was undone"))
	}
	if b.done[key] == "" {
		for other, w := range b.done {
			if w == what {
				p.play.breaks("%s is done twice, with keys %s and %s", what, other, key)
			}
		}
		p.play.acts(who, what)
		b.done[key] = what
	}
	b.mu.Unlock()
	if err := p.gate(); err != nil {
		return err
	}
	if flaky && fails == 1 {
		return errRefused
	}
	return nil
}

func (b *behind) undo(ctx context.Context, key saga.Key, effect, who string, final bool) error {
	p := ctx.Value(processKey{}).(*process)
	if err := p.gate(); err != nil {
		return err
	}
	b.mu.Lock()
	b.calls[who+" undo "+effect]++
	switch what := b.done[key]; {
	case time.Now().Before(b.unwilling):
		b.mu.Unlock()
		return errors.New("not now")
	case what != "" && final:
		b.mu.Unlock()
		return saga.Final(errors.New("it was done"))
	case what != "":
		p.play.unacts(who, what)
		delete(b.done, key)
	}
	b.undone[key] = true
	b.mu.Unlock()
	return p.gate()
}

// modelArgs say which of the tool's ways a saga goes.
type modelArgs struct {
	Who string `json:"who"`
	// Early: it acts before it asks.
	Early bool `json:"early,omitempty"`
	// Pay is the effect that pays.
	Pay string `json:"pay"`
}

var payments = []string{"charge", "pay", "capture"}

// modelTool asks twice, and acts in the turns between: it holds a room and a seat unless the
// first answer is no, and pays unless the second is.
func modelTool() saga.Definition {
	effect := func(name string, irreversible, undoable bool) *saga.Effect[string, string] {
		e := &saga.Effect[string, string]{Name: name, Tries: 1, Irreversible: irreversible}
		e.Do = func(ctx context.Context, key saga.Key, who string) (string, error) {
			return string(key), ctx.Value(processKey{}).(*process).play.behind.do(ctx, key, name, who)
		}
		if undoable {
			e.Undo = func(ctx context.Context, x saga.Performed[string, string]) error {
				return ctx.Value(processKey{}).(*process).play.behind.undo(ctx, x.Key, name, x.In, irreversible)
			}
		}
		return e
	}
	a, b := &steps.Form[tripForm]{ID: "a", Message: "Hold?"}, &steps.Form[tripForm]{ID: "b", Message: "Pay?"}
	hold, seat := effect("hold", false, true), effect("seat", false, true)
	pay := map[string]*saga.Effect[string, string]{"charge": effect("charge", false, true), "pay": effect("pay", true, false), "capture": effect("capture", true, true)}
	info := saga.Info{Name: "model", Asks: []steps.Question{a, b}, Effects: []saga.Declared{hold, seat, pay["charge"], pay["pay"], pay["capture"]}}
	return saga.Flow[modelArgs, string]{Info: info, Run: func(r *saga.Run, in modelArgs) (string, error) {
		did := "booked:"
		act := func(e *saga.Effect[string, string]) error {
			_, err := saga.Do(r, e, in.Who)
			did += " " + e.Name
			return err
		}
		if in.Early {
			if err := act(hold); err != nil {
				return "", err
			}
		}
		first, err := saga.Ask(r, a)
		if err != nil {
			return "", err
		}
		if first.OK {
			if !in.Early {
				if err := act(hold); err != nil {
					return "", err
				}
			}
			if err := act(seat); err != nil {
				return "", err
			}
		}
		second, err := saga.Ask(r, b)
		if err != nil {
			return "", err
		}
		if !second.OK {
			return "", saga.Failf("not paid")
		}
		if err := act(pay[in.Pay]); err != nil {
			return "", err
		}
		return did, nil
	}}
}

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
	runner := turns.New(turns.Config{
		Registry: registry, Codec: sealer, Log: slog.New(slog.NewTextHandler(logTo{p}, nil)), Timeout: time.Minute, UndoGrace: modelGrace,
		Now: p.clock,
		NewID: func() (id tokens.ID) {
			copy(id[:], fmt.Sprintf("%d.%d.%d", x.seed%1e6, p.slot, p.draw(1e9)))
			return id
		},
	})
	p.Runner = runner
	var err error
	p.core, err = durable.New(durable.Config{Turns: runner, Store: newGated(x.store, p)})
	must(err)
	x.workers.Go(func() { _ = p.core.Work(context.WithValue(ctx, workerKey{}, true)) })
	return p
}
