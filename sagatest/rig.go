package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
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
	// now is the time, which setNow sets; shown is the same for the ledger, which goroutines ask
	// that a broken tool has left behind.
	now   time.Time
	shown atomic.Pointer[time.Time]
	// began is when the clock of the bubble began that the rig is in; zero if it is in none.
	began  time.Time
	client steps.Features
	watch  *watch
	// codec and then the tools too are used for all turns if codec is set: to make them takes
	// more time than most turns.
	codec *tokens.Codec
	tools *engine.Registry
	// resends: the client sends the arguments every time, so that the token need
	// not hold them.
	resends bool
	// parts: the client gets parts of the result. policies are those of its tokens.
	parts    bool
	policies map[string]turns.Policy
	// id is that of the first saga.
	id    saga.ID
	turns int
	heard heard
	// ledger is shared by the servers, or nil. line is how the last of them reaches it, and fails which of its next
	// turn's operations fails. skew is by how much the clocks of two that follow one another differ from the time.
	ledger ledger.Store
	line   *line
	fails  int
	skew   time.Duration
	// clock is that of the turn under way.
	clock *clock
	// first is when each token was first brought.
	first map[string]time.Time
}

func (r *rig) setNow(now time.Time) {
	r.now = now
	r.shown.Store(&now)
}

// storeNow is the time by the ledger's clock. In a bubble that runs.
func (r *rig) storeNow() time.Time {
	now := *r.shown.Load()
	if !r.began.IsZero() {
		now = now.Add(time.Since(r.began))
	}
	return now
}

// newLedger has the servers share a ledger.
func (r *rig) newLedger() { r.ledger = ledger.NewMemory(ledger.MemoryOptions{Now: r.storeNow}) }

var codecOptions = tokens.Options{Audience: "https://sagatest.example"}

// request is what the client sends: without a token, a call of the tool.
type request struct {
	token   string
	answers []steps.Answer
	cancels bool
	// works: it is no request, but a server's worker that looks what is to be undone.
	works bool
}

// reply is what comes of a request.
type reply struct {
	// cut: the turn was cut off; there is no response.
	cut bool
	// err says that the turn failed, with a JSON-RPC error as its response.
	err error
	// token and steps are there if the saga is suspended, at position.
	token    string
	wake     time.Time
	slept    bool // for longer than a turn, now or before
	steps    []steps.Step
	part     content.Blocks
	position *engine.Position
	// out is there if the saga has ended.
	out *engine.Outcome
	// reworded are questions that are asked anew although the code is the same.
	reworded []string
	// again is a token with which undo that has failed can be tried again, if any has.
	again string
	// cancelled and late: it ended because it was cancelled, or came too late.
	cancelled, late bool
	// undone: it ended because its turn failed and that cannot be taken again.
	undone bool
}

// errGoexit is what comes of a t.FailNow in a tool.
var errGoexit = errors.New("the tool's code ended its goroutine: it called runtime.Goexit, or t.FailNow or t.Fatal of a test")

func (r *rig) send(q request) (rep reply) {
	r.turns++
	r.connect(r.turns)
	ctx, cancel := context.WithCancel(sagahooks.With(context.Background(), r.line))
	defer cancel()
	r.watch.begin(r.turns, cancel)
	defer r.watch.end()
	ended := make(chan reply)
	go func() {
		rep, done := reply{}, false
		defer func() {
			if v := recover(); v != nil {
				rep, done = reply{err: &engine.PanicError{Value: v, Stack: debug.Stack()}}, true
			}
			if !done {
				rep = reply{err: errGoexit}
			}
			ended <- rep
		}()
		rep = r.turn(ctx, q)
		done = true
	}()
	before := r.now
	rep = <-ended
	if slept := r.clock; slept != nil {
		r.setNow(before.Add(max(0, slept.now().Sub(slept.began))))
	}
	if r.watch.wasCut() {
		return reply{cut: true}
	}
	return rep
}

// turn has the runner of turns serve the request, as a server would.
func (r *rig) turn(ctx context.Context, q request) reply {
	s, err := r.host()
	if err != nil {
		return reply{err: err}
	}
	turn := r.request(s.tool)
	turn.Token, turn.Answers = q.token, q.answers
	var end turns.End
	switch {
	case q.works:
		return reply{err: s.work(ctx)}
	case q.token == "":
		end, err = s.Call(ctx, turn)
	case q.cancels:
		turn.Policy = turns.Carried // or the other: that of what is left to undo is always this
		end, err = s.Cancel(ctx, turn, turns.Resent, turns.Paged)
	default:
		if p, ok := r.policies[q.token]; ok && p != turn.Policy {
			turn.Policy, turn.Asks = p, turn.Policy
		}
		end, err = s.Resume(ctx, turn)
	}
	if end.Token != "" {
		r.policies[end.Token] = end.Policy
	}
	rep := replyOf(s.tool, end, err)
	if q.cancels && rep.out != nil && rep.out.Result != nil && !rep.out.Result.IsError {
		// A turn that ended the saga well has nothing to report.
		_, rep.cancelled = rep.out.Result.Meta[engine.UndoMetaKey]
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
	r.line = newLine(r.ledger, turnWorld{r.watch, turn})
	r.line.fails, r.fails = r.fails, 0
}

// host returns what takes the next turn.
func (r *rig) host() (*host, error) {
	began := r.now
	if r.ledger != nil {
		began = began.Add(r.skew * time.Duration(r.turns%2))
	}
	r.clock = &clock{at: began, began: began}
	return r.hostAt(r.line, r.clock.now, r.clock.sleep)
}

// hostAt returns a server that goes by a clock.
func (r *rig) hostAt(l *line, now func() time.Time, sleep func(context.Context, time.Time) error) (s *host, err error) {
	tools, c := r.tools, r.codec
	if tools == nil {
		if tools, err = engine.NewRegistry(r.definition); err != nil {
			return nil, err
		}
	}
	if c != nil {
		r.tools = tools
	} else if c, err = tokens.New(r.keys, codecOptions); err != nil {
		return nil, err
	}
	s = &host{tool: firstTool(tools)}
	s.Runner = turns.New(turns.Config{
		Registry: tools, Codec: c, Log: slog.New(slog.DiscardHandler), Now: now, Sleep: sleep, NewID: func() tokens.ID { return tokens.ID(r.newID()) },
		UndoGrace: turns.DefaultUndoGrace,
	})
	if r.ledger != nil {
		s.core, err = durable.New(durable.Config{Turns: s.Runner, Store: &l.store, Now: r.storeNow, Workers: 1})
	}
	return s, err
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
	s, err := r.host()
	if err != nil {
		return "", err
	}
	q := r.request(s.tool)
	return s.Seal(&q, s.tool, pos)
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
	var failed *engine.ToolError
	var undone *engine.UndoneError
	switch {
	case tool.Kind != engine.KindTool && (errors.As(err, &failed) || errors.Is(err, saga.ErrNotFound)):
		// So a prompt or a resource says that it has failed.
		return reply{out: &engine.Outcome{Err: err}}
	case err != nil:
		return reply{err: explained(err), undone: errors.As(err, &undone)}
	case end.Token != "":
		return reply{token: end.Token, wake: end.Wake, steps: end.Steps, part: end.Yielded, position: end.Position, reworded: end.Reworded}
	}
	rep := reply{out: &end.Outcome, late: end.Gone != ""}
	if u := (&Played{Result: end.Result}).Undo(); u != nil {
		rep.again = u.SagaToken
	}
	return rep
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
