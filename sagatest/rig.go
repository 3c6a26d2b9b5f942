package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// rig is a server of which nothing survives a turn but its keys: every turn has a
// tool made from the definition. What goes from one turn to the next goes through the
// client, as a token. The turns themselves are those of
// package server.
type rig struct {
	definition saga.Definition
	args       json.RawMessage
	client     steps.Features
	caller     *engine.Caller // nil is an anonymous one
	world      *world
	clock      clock
	codec      *tokens.Codec
	// resends: the client sends the arguments every time, so that the token need
	// not hold them. parts: it gets parts of the result.
	resends, parts bool
	// routes are by what the user is asked; zero is the client.
	routes steps.Routes
	tool   *engine.Program
	// id is that of the first saga.
	id    saga.ID
	turns int
	// ledger is shared by the servers, or nil.
	ledger ledger.Store
	office *office // servers that drive the saga as a task; nil if the client does
}

// clock stands still unless it is set, but in a bubble, where it runs.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	began time.Time // when the bubble's clock showed at; zero outside of bubbles
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		return c.at
	}
	return c.at.Add(time.Since(c.began))
}

// pass has the time pass.
func (c *clock) pass(d time.Duration) {
	if !c.began.IsZero() {
		time.Sleep(d)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// until has the time pass until then, unless it has.
func (c *clock) until(then time.Time) { c.pass(max(0, then.Sub(c.now()))) }

// newLedger has the servers share a ledger.
func (r *rig) newLedger() { r.ledger = ledger.NewMemory(ledger.MemoryOptions{Now: r.clock.now}) }

// newCodec has keys that no other has.
func newCodec(t testing.TB, ttl time.Duration) *tokens.Codec {
	t.Helper()
	keys, err := codec.NewKeyset()
	if err != nil {
		t.Fatalf("sagatest: %v", err)
	}
	c, err := tokens.New(keys, tokens.Options{Audience: "https://sagatest.example", TTL: ttl})
	if err != nil {
		t.Fatalf("sagatest: %v", err)
	}
	return c
}

// reply is what comes of a request.
type reply struct {
	turns.End
	// err says that the turn failed, with a JSON-RPC error as its response.
	err error
	// ended: the saga has ended. cut: the turn was cut off; there is no response.
	ended, cut bool
	// cancelled: it ended as its client has cancelled it. undone: its turn failed and cannot be taken again.
	cancelled, undone bool
	// awaits are the events that the saga waits for.
	awaits []tasks.Awaited
}

// errGoexit is what comes of a t.FailNow in a tool.
var errGoexit = errors.New("the tool's code ended its goroutine: it called runtime.Goexit, or t.FailNow or t.Fatal of a test")

func (r *rig) send(q request) reply {
	r.turns++
	if r.office != nil {
		return r.office.send(q)
	}
	ctx, cancel := context.WithCancel(engine.WithCaller(context.Background(), r.caller))
	defer cancel()
	p := r.process(r.turns, cancel)
	ended := make(chan reply)
	go func() {
		rep := reply{err: errGoexit} // unless the turn returns or panics
		defer func() { ended <- rep }()
		if err := engine.Protect(func() error { rep = r.turn(sagahooks.With(ctx, p), q, p); return nil }); err != nil {
			rep.err = err
		}
	}()
	rep := <-ended
	if p.end() {
		return reply{cut: true}
	}
	return rep
}

// turn has the runner of turns serve the request, as a server would.
func (r *rig) turn(ctx context.Context, q request, p *process) reply {
	h, err := r.host(p)
	if err != nil {
		return reply{err: err}
	}
	turn := r.request(h.tool)
	turn.Token, turn.Answers = q.token, q.answers
	var end turns.End
	switch {
	case q.token == "":
		end, err = h.Call(ctx, turn)
	case q.cancels:
		turn.Policy = turns.Carried // or the other: that of what is left to undo is always this
		end, err = h.Cancel(ctx, turn, turns.Resent, turns.Paged, turns.Relayed)
	default:
		if q.policy != turn.Policy {
			turn.Policy, turn.Asks = q.policy, turn.Policy
		}
		end, err = h.Resume(ctx, turn)
	}
	rep := replyOf(h.tool, end, err)
	if question := r.unasked(&rep); question != "" {
		turn.Token, turn.Answers = rep.Token, nil
		end, err = h.Cancel(ctx, turn)
		if rep = replyOf(h.tool, end, err); rep.Result != nil {
			rep.Result = relay.NoWay(h.tool, question, rep.Result)
		}
	}
	rep.awaits = h.awaited(rep.Position)
	// A turn that ended the saga well has nothing to report.
	rep.cancelled = q.cancels && rep.Result != nil && !rep.Result.IsError && turns.UndoReport(rep.Result) != nil
	return rep
}

// host is a server that has the tool.
type host struct {
	*turns.Runner
	core *durable.Core // nil if it has no ledger
	mark []byte        // the ledger's
	tool *engine.Program
}

// host returns the server in a process.
func (r *rig) host(p *process) (h *host, err error) {
	tools, err := engine.NewRegistry(r.definition)
	if err != nil {
		return nil, err
	}
	h = &host{tool: tools.Of(r.tool.Kind)[0]}
	config := turns.Config{
		Registry: tools, Codec: r.codec, Log: slog.New(slog.DiscardHandler), Now: r.clock.now,
		NewID: func() tokens.ID { return tokens.ID(r.newID()) }, UndoGrace: turns.DefaultUndoGrace,
		// It is longer than that of servers, so that handles do not name the saga's row: each way to play the saga has another
		// one, and the worlds are compared.
		NewSecret: func() []byte { return append(r.id[:], "of the test kit"...) }, Pages: "https://sagatest.example.com/ask",
	}
	if r.office == nil {
		config.Sleep = func(ctx context.Context, until time.Time) error { r.clock.until(until); return ctx.Err() }
	}
	h.Runner = turns.New(config)
	if r.ledger == nil {
		return h, nil
	}
	if h.core, err = durable.New(durable.Config{Turns: h.Runner, Store: &p.store, Workers: 1}); err == nil {
		h.mark, err = h.core.Mark(context.Background())
	}
	return h, err
}

// request is what every request of the client says.
func (r *rig) request(tool *engine.Program) turns.Request {
	q := turns.Request{Policy: turns.Carried, Principal: r.caller.Binding(), Client: r.client, Notifier: r.world, Program: tool, Arguments: r.args, Parts: r.parts}
	switch {
	case r.routes != 0:
		q.Policy = turns.Relayed
	case r.resends:
		q.Policy = turns.Resent
	}
	if r.ledger != nil {
		q.IdempotencyKey = "the call"
	}
	return q
}

// sealed returns a client's last response, as which it has the token of a position that was made by hand.
func (r *rig) sealed(pos *engine.Position) (rep reply, err error) {
	h, err := r.host(r.process(0, nil))
	if err != nil {
		return rep, err
	}
	q := r.request(h.tool)
	rep.Position, rep.Policy, rep.awaits = pos, q.Policy, h.awaited(pos)
	rep.Token, err = h.Seal(context.Background(), &q, h.tool, pos)
	return rep, err
}

// replyOf describes what comes of a turn.
func replyOf(tool *engine.Program, end turns.End, err error) reply {
	if turn, ok := errors.AsType[*turns.Error](err); ok {
		err = turn.Err // no client sees more of it
	}
	switch {
	case turns.EndsWith(tool.Kind, err):
		return reply{ended: true, End: turns.End{Outcome: engine.Outcome{Err: err}}}
	case err != nil:
		return reply{err: explained(err), undone: errors.As(err, new(*engine.UndoneError))}
	}
	return reply{End: end, ended: end.Token == ""}
}

// explained says why a token was refused, which clients do not learn.
func explained(err error) error {
	if rejected, ok := errors.AsType[*tokens.Rejected](err); ok && rejected.Detail != nil {
		return fmt.Errorf("%w: %s: %w", rejected, rejected.Reason, rejected.Detail)
	}
	return err
}

// newID returns the id of the next saga. A call that was cut off before it did
// anything may as well never have been, so the next one gets its id.
func (r *rig) newID() saga.ID {
	begun := make(map[int]bool)
	for _, c := range r.world.taken() {
		if c.reached {
			begun[c.Turn] = true
		}
	}
	id := r.id
	id[len(id)-1] += byte(len(begun))
	return id
}
