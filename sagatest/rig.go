package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// rig is a server of which nothing survives a turn but its keys: every turn has a
// tool made from the definition, and a codec made from the keys. What goes from one
// turn to the next goes through the client, as a token. The turns themselves are those of
// package server.
type rig struct {
	definition saga.Definition
	args       json.RawMessage
	keys       *codec.Keyset
	client     steps.Features
	watch      *watch
	heard      heard
	clock      clock
	// shared: all turns have the same codec and tools. To make them takes more time than most turns.
	shared bool
	codec  *tokens.Codec
	tools  *engine.Registry
	// resends: the client sends the arguments every time, so that the token need
	// not hold them.
	resends bool
	// parts: the client gets parts of the result. policies are those of its tokens.
	parts    bool
	policies map[string]turns.Policy
	// id is that of the first saga.
	id    saga.ID
	turns int
	// ledger is shared by the servers, or nil. line is how the last of them reaches it, and fails which of its next
	// turn's operations fails. skew is by how much the clocks of two that follow one another differ from the time.
	ledger ledger.Store
	line   *line
	fails  int
	skew   time.Duration
	office *office // servers that drive the saga as a task; nil if the client does
}

// clock stands still unless it is set, but in a bubble, where it runs. What still runs of a turn that was cut off has
// its own.
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

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// pass has the time pass.
func (c *clock) pass(d time.Duration) {
	if !c.began.IsZero() {
		time.Sleep(d)
		return
	}
	c.set(c.now().Add(d))
}

// until has the time pass until then, unless it has.
func (c *clock) until(then time.Time) {
	if c.now().Before(then) {
		c.set(then)
	}
}

// newLedger has the servers share a ledger.
func (r *rig) newLedger() { r.ledger = ledger.NewMemory(ledger.MemoryOptions{Now: r.clock.now}) }

var codecOptions = tokens.Options{Audience: "https://sagatest.example"}

// request is what the client sends: without a token, a call of the tool.
type request struct {
	token   string
	answers []steps.Answer
	// later is how long the client takes to answer.
	later   time.Duration
	cancels bool
	// works: it is no request, but a server's worker that looks what is to be undone.
	works bool
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
	// slept: it has slept for longer than a turn, now or before.
	slept bool
}

// errGoexit is what comes of a t.FailNow in a tool.
var errGoexit = errors.New("the tool's code ended its goroutine: it called runtime.Goexit, or t.FailNow or t.Fatal of a test")

func (r *rig) send(q request) (rep reply) {
	r.turns++
	if r.office != nil {
		return r.office.send(q)
	}
	r.connect(r.turns)
	ctx, cancel := context.WithCancel(sagahooks.With(context.Background(), r.line))
	defer cancel()
	r.watch.begin(r.turns, cancel)
	defer r.watch.end()
	own := &clock{at: r.clock.now().Add(r.skew * time.Duration(r.turns%2))}
	began := own.at
	ended := make(chan reply)
	go func() {
		rep := reply{err: errGoexit} // unless the turn returns or panics
		defer func() { ended <- rep }()
		if err := engine.Protect(func() error { rep = r.turn(ctx, q, own); return nil }); err != nil {
			rep.err = err
		}
	}()
	rep = <-ended
	r.clock.pass(own.now().Sub(began))
	if r.watch.wasCut() {
		return reply{cut: true}
	}
	return rep
}

// turn has the runner of turns serve the request, as a server would.
func (r *rig) turn(ctx context.Context, q request, now *clock) reply {
	h, err := r.host(r.line, now)
	if err != nil {
		return reply{err: err}
	}
	turn := r.request(h.tool)
	turn.Token, turn.Answers = q.token, q.answers
	var end turns.End
	switch {
	case q.works:
		return reply{err: h.work(ctx)}
	case q.token == "":
		end, err = h.Call(ctx, turn)
	case q.cancels:
		turn.Policy = turns.Carried // or the other: that of what is left to undo is always this
		end, err = h.Cancel(ctx, turn, turns.Resent, turns.Paged)
	default:
		if p, ok := r.policies[q.token]; ok && p != turn.Policy {
			turn.Policy, turn.Asks = p, turn.Policy
		}
		end, err = h.Resume(ctx, turn)
	}
	if end.Token != "" {
		r.policies[end.Token] = end.Policy
	}
	rep := replyOf(h.tool, end, err)
	if q.cancels && rep.Result != nil && !rep.Result.IsError {
		// A turn that ended the saga well has nothing to report.
		rep.cancelled = turns.UndoReport(rep.Result) != nil
	}
	return rep
}

// host is a server that has the tool.
type host struct {
	*turns.Runner
	core *durable.Core // nil if it has no ledger
	tool *engine.Program
}

// connect begins the line of the server that takes a turn.
func (r *rig) connect(turn int) {
	r.line = newLine(r.ledger, r.watch, turn)
	r.line.fails, r.fails = r.fails, 0
}

// host returns a server.
func (r *rig) host(l *line, c *clock) (h *host, err error) {
	if !r.shared {
		r.tools, r.codec = nil, nil
	}
	if r.tools == nil {
		if r.tools, err = engine.NewRegistry(r.definition); err != nil {
			return nil, err
		}
	}
	if r.codec == nil {
		if r.codec, err = tokens.New(r.keys, codecOptions); err != nil {
			return nil, err
		}
	}
	h = &host{tool: firstTool(r.tools)}
	config := turns.Config{
		Registry: r.tools, Codec: r.codec, Log: slog.New(slog.DiscardHandler), Now: c.now,
		NewID: func() tokens.ID { return tokens.ID(r.newID()) }, UndoGrace: turns.DefaultUndoGrace,
	}
	if c.began.IsZero() {
		config.Sleep = func(ctx context.Context, until time.Time) error { c.until(until); return ctx.Err() }
	}
	h.Runner = turns.New(config)
	if r.ledger != nil {
		h.core, err = durable.New(durable.Config{Turns: h.Runner, Store: &l.store, Now: r.clock.now, Workers: 1})
	}
	return h, err
}

// request is what every request of the client says.
func (r *rig) request(tool *engine.Program) turns.Request {
	policy := turns.Carried
	if r.resends {
		policy = turns.Resent
	}
	q := turns.Request{Policy: policy, Client: r.client, Notifier: &r.heard, Program: tool, Arguments: r.args, Parts: r.parts}
	if r.ledger != nil {
		q.IdempotencyKey = "the call"
	}
	return q
}

// sealed returns the token of a position that was made by hand.
func (r *rig) sealed(pos *engine.Position) (string, error) {
	r.connect(0)
	h, err := r.host(r.line, &r.clock)
	if err != nil {
		return "", err
	}
	q := r.request(h.tool)
	return h.Seal(&q, h.tool, pos)
}

func firstTool(tools *engine.Registry) *engine.Program {
	for _, kind := range []engine.Kind{engine.KindTool, engine.KindPrompt, engine.KindResource} {
		for _, t := range tools.Of(kind) {
			return t
		}
	}
	return nil
}

// replyOf describes what comes of a turn.
func replyOf(tool *engine.Program, end turns.End, err error) reply {
	if turn, ok := errors.AsType[*turns.Error](err); ok {
		err = turn.Err // no client sees more of it
	}
	switch {
	case tool.Kind != engine.KindTool && (errors.As(err, new(*engine.ToolError)) || errors.Is(err, saga.ErrNotFound)):
		// So a prompt or a resource says that it has failed.
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
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	begun := make(map[int]bool)
	for _, c := range r.watch.calls {
		if c.reached {
			begun[c.Turn] = true
		}
	}
	id := r.id
	id[len(id)-1] += byte(len(begun))
	return id
}
