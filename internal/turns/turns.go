// Package turns takes the turns of sagas. A turn opens the token that the client has brought, runs the engine, and seals the
// next token; nothing of a saga is in the server between two turns. A [Memory], which package durable is, remembers which
// turns were taken, and has undone what sagas did whose clients do not come back.
//
// Make a [Runner] with [New]. A dialect describes what a client's message asks for as a [Request] and hands it to
// [Runner.Call], [Runner.Resume] or [Runner.Cancel]; one whose clients know nothing of turns has [Runner.Drive] take them
// all. What comes of it is an [End], or an error that the dialect translates (see [Error]). The runner has then logged what
// operators should know. The package knows nothing of JSON-RPC and of how messages travel.
//
// turns.go takes turns, and token.go opens and seals their tokens, of which apart.go keeps in the memory what is too long.
// cancel.go and drive.go are the other ways through a saga, task.go takes the turns that a server takes by itself, and
// sleep.go, paged.go and events.go are about pauses. memory.go is what a memory does for the runner, and the runner for a
// memory, and hooks.go calls the hooks around turns.
package turns

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/lazyctx"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// DefaultUndoGrace is how long servers undo what comes too late, unless configured.
const DefaultUndoGrace = 30 * 24 * time.Hour

// Config configures a [Runner]. Registry, Codec, Log and Now are required.
type Config struct {
	// Registry has the tools, prompts and resources.
	Registry *engine.Registry
	// Codec seals and opens the tokens.
	Codec *tokens.Codec
	// Log gets what operators should know.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// NewID returns the id of the next saga. Default: a random one.
	NewID func() tokens.ID
	// NewSecret returns what the handles of the next saga are made of. Default: a random one.
	NewSecret func() []byte
	// Pages is where others than a saga's caller answer; empty if they cannot.
	Pages string
	// ClientMay reports whether a client may answer a question itself; nil: it may answer all.
	ClientMay func(engine.Routing) bool
	// Timeout bounds a turn; zero means that nothing does.
	Timeout time.Duration
	// UndoGrace is how long after a token has expired what its saga did is still undone;
	// negative means never.
	UndoGrace time.Duration
	// Model answers what tools ask of a model when the client has none; nil is no model.
	Model Model
	// Sleep waits until a time, or until ctx ends, with whose error it then fails. Default: by
	// the machine's clock.
	Sleep func(ctx context.Context, until time.Time) error
	// Watch is called before and after every turn, Hook around every turn, and EffectHook around every try of an effect; each
	// may be nil.
	Watch      Watch
	Hook       Hook
	EffectHook engine.EffectHook
	// Permit is asked before a turn, but for the first in the time of its request, which has found the program. nil permits all.
	Permit Permit
}

// Runner takes turns. It is safe for concurrent use.
type Runner struct {
	Config
	memory Memory // nil if nothing is remembered
	outage Outage
}

// New returns a runner that remembers nothing. It costs next to nothing.
func New(c Config) *Runner {
	if c.NewID == nil {
		c.NewID = randomID
	}
	if c.NewSecret == nil {
		c.NewSecret = engine.NewSecret
	}
	r := &Runner{Config: c}
	c.Registry.OnHang(r.logHang)
	return r
}

// NeedLedger returns an error for each program that demands to be remembered, or to be a task, which
// it cannot be without a ledger.
func NeedLedger(registry *engine.Registry) error {
	var missing []error
	for _, kind := range kinds {
		for _, newest := range registry.Of(kind) {
			for _, p := range registry.Revisions(kind, newest.Name) {
				needs := func(is bool, what string) {
					if is {
						missing = append(missing, &engine.DefinitionError{Tool: p.Name, Problem: what + ", for which the server needs a ledger"})
					}
				}
				needs(p.AsksOthers(), "it asks others than its caller")
				needs(p.Waits() && !p.AsksOthers(), "it waits for events")
				needs(p.Tasks.Mode == engine.TasksRequired, "its Tasks are required")
				needs(p.SingleUse == engine.SingleUseRequired, "its SingleUse is required")
			}
		}
	}
	return errors.Join(missing...)
}

var kinds = [...]engine.Kind{engine.KindTool, engine.KindPrompt, engine.KindResource}

// remembers reports whether the turns of a program are remembered.
func (r *Runner) remembers(p *engine.Program) bool { return r.memory != nil && p.Remembered() }

func randomID() (id tokens.ID) {
	rand.Read(id[:]) // never fails (crypto/rand)
	return id
}

// Identity is the saga that a turn belongs to.
type Identity struct {
	Program *engine.Program
	Saga    tokens.ID
}

// Call takes the first turn of a saga of q.Program.
func (r *Runner) Call(ctx context.Context, q Request) (End, error) {
	if err := r.MayAsk(&q, q.Program); err != nil {
		return End{}, r.Report(ctx, q.Method, err)
	}
	of := Identity{q.Program, r.NewID()}
	saga := &of.Saga
	if r.watched() {
		q.turn = &Turn{Action: "call", Program: q.Program, Saga: of.Saga, Number: 1, Trace: q.Trace, Caller: q.Caller(), Arguments: q.Arguments, Answers: q.Answers}
		saga = &q.turn.Saga
	}
	end, err := r.around(ctx, q.turn, func(ctx context.Context) (End, error) {
		if r.remembers(q.Program) {
			return r.memory.CallOnce(ctx, &q, saga)
		}
		return r.Start(ctx, &q, of, nil)
	})
	if err != nil {
		if err = r.Report(ctx, q.Method, err); q.IdempotencyKey == "" || !r.remembers(q.Program) {
			err = once(err)
		}
	}
	return end, err
}

// Resume takes the next turn of the saga that the token holds.
func (r *Runner) Resume(ctx context.Context, q Request) (End, error) {
	o, refused := r.open(ctx, &q, false)
	if refused == nil && !q.Elsewhere {
		refused = r.MayAnswer(o.Program, q.Answers)
	}
	if r.watched() {
		q.turn = r.hookedOpen("resume", &q, o)
	}
	end, err := r.around(ctx, q.turn, func(ctx context.Context) (End, error) {
		if refused != nil {
			return End{}, refused
		}
		return r.ready(ctx, &q, o)
	})
	if err != nil {
		if err = r.Report(ctx, q.Method, err); q.Policy.UndoBroken {
			err = once(err)
		}
	}
	return end, err
}

// ready takes a turn that comes after an opened token when it is time for it, or something has come of the events that
// the saga waits for if it waits for nothing else. If neither is so in good time, the saga is where it was, and so is its
// token.
func (r *Runner) ready(ctx context.Context, q *Request, o *Opened) (End, error) {
	waits := r.memory != nil && o.Position.Awaits() && !o.Position.Asks()
	if o.Gone == nil && (waits || r.Now().Before(o.Position.Wake)) {
		is, err := r.isTime(ctx, q, o, waits)
		switch {
		case err != nil:
			return End{}, r.Failed(o.Identity, err)
		case !is:
			return End{Token: q.Token, Policy: q.Policy, Wake: r.wake(o.Position), Outcome: engine.Outcome{Position: o.Position}}, nil
		}
	}
	if r.remembers(o.Program) {
		return r.memory.ResumeOnce(ctx, q, o)
	}
	return r.Continue(ctx, q, o, nil)
}

// call is what a turn of a request is taken with, which m remembers, unless that is nil.
func (r *Runner) call(q *Request, m Remembered) engine.Call {
	c := engine.Call{Now: r.Now(), Client: r.Features(q.Client), Notifier: q.Notifier, Held: q.Policy.UndoBroken, Unwanted: q.Unwanted}
	if m != nil {
		c.Present = c.Now
		c.Now, c.Lost, c.Events = m.Begun()
		c.Acting, c.Final, c.Begins, c.Undoing, c.Did = m.Acting, m.Final, m.Begins, m.Undoing, m.Did
	}
	return c
}

// Start takes the first turn. m remembers it, or is nil.
func (r *Runner) Start(ctx context.Context, q *Request, of Identity, m Remembered) (End, error) {
	turn := r.Begin(ctx)
	defer turn.Cancel()
	call := r.call(q, m)
	// No one can take a first turn again, whatever the policy, unless it is remembered by
	// a key: the next call is another saga. What this one did before it broke off would
	// stay done for ever.
	call.Held = call.Held || m == nil || m.Unrepeatable()
	call.ID, call.Arguments = of.Saga, q.Arguments
	if call.Secret = q.Secret; call.Secret == nil {
		call.Secret = r.NewSecret()
	}
	err := r.Mark(turn, q.Program, &call)
	if err != nil {
		return End{}, r.Failed(of, err)
	}
	out, err := q.Program.Start(turn, call)
	return r.finish(turn, q, of, out, err, true, m)
}

// Continue takes the turn that comes after an opened token. m remembers it, or is nil.
func (r *Runner) Continue(ctx context.Context, q *Request, o *Opened, m Remembered) (End, error) {
	if o.Gone != nil {
		return r.abandon(ctx, q, o.Identity, o.Position, o.Gone, m)
	}
	turn := r.Begin(ctx)
	defer turn.Cancel()
	res := r.call(q, m)
	res.Answers, res.Arguments = q.Answers, o.Arguments
	if q.Policy.Resent {
		res.Arguments = OrEmpty(q.Arguments)
		ids := o.Position.PendingIDs()
		res.Answers = slices.DeleteFunc(slices.Clone(q.Answers), func(a steps.Answer) bool { return !slices.Contains(ids, a.StepID) })
	}
	if o.Position.Wake.After(res.Now) {
		res.Now = o.Position.Wake // it was waited for, by another clock
	}
	err := r.Mark(turn, o.Program, &res)
	// A lost turn has its events from m already.
	if err == nil && len(res.Events) == 0 && o.Position.Awaits() && r.memory != nil {
		res.Events, err = r.memory.Register(turn, q.Principal, o.Program, o.Position)
	}
	if err != nil {
		return End{}, r.Failed(o.Identity, err)
	}
	if len(res.Events) > 0 {
		q.turn.hears(res.Events)
		if m != nil {
			m.Heard(o.Program, o.Position, res.Events)
		}
	}
	out, err := o.Program.Resume(turn, o.Position, res)
	if len(o.Position.Parts) > 0 {
		carry(out, o.Position)
	}
	position, changed := errors.AsType[*engine.PositionError](err)
	_, undone := errors.AsType[*engine.UndoneError](err) // by the engine, if the turn could not be taken again
	if changed && !undone && o.Position.HasEffects() && !o.Position.HasEnded() {
		// This version of the tool has no longer what the saga waits in. One that has ended waits in nothing: its client can only cancel it.
		gone := tokens.Reject(tokens.ReasonState, "%w", position)
		return r.abandon(turn, q, o.Identity, o.Position, gone, m)
	}
	return r.finish(turn, q, o.Identity, out, err, false, m)
}

// Begin returns the context of a turn.
func (r *Runner) Begin(ctx context.Context) *lazyctx.Context {
	if r.EffectHook != nil {
		ctx = engine.WithEffectHook(ctx, r.EffectHook)
	}
	turn := new(lazyctx.Context)
	if r.Timeout <= 0 {
		turn.Init(ctx, time.Time{})
	} else {
		turn.Init(ctx, time.Now().Add(r.limit(ctx)))
	}
	return turn
}

// finish brings a turn to its end after its tool's code has run: what needs no client is answered, and the token sealed
// that the client needs to go on, or to have an undo tried again. If that fails, and the turn is the first or one that no
// one can take again, what it did is undone.
func (r *Runner) finish(ctx context.Context, q *Request, of Identity, out *engine.Outcome, err error, first bool, m Remembered) (End, error) {
	if err == nil {
		var ahead []steps.Answer
		if first {
			ahead = q.Answers
		}
		out, err = r.advance(ctx, q, of.Program, out, ahead, m)
	}
	var end End
	if err == nil {
		if out.Err != nil {
			r.logFailed(ctx, of, out)
		}
		if end.Outcome = *out; out.Position != nil {
			end.Wake = r.wake(out.Position)
		}
		if out.Position != nil {
			err = r.sealNext(ctx, q, of.Program, &end)
		} else if out.Result != nil && out.Result.Meta != nil {
			err = r.sealUndo(ctx, q, of.Program, out.Result)
		}
		if errors.Is(err, tokens.ErrOver) { // during the turn
			return r.abandon(ctx, q, of, out.Position, tokens.Reject(tokens.ReasonDeadline, "%w", err), m)
		}
	}
	if err != nil && out != nil && (first && (m == nil || m.Unrepeatable()) || q.undoes(ctx)) {
		err = r.undoBroken(ctx, of, out.Position, err, m)
	}
	if err != nil {
		return End{}, r.Failed(of, err)
	}
	return end, nil
}

func (r *Runner) logFailed(ctx context.Context, of Identity, out *engine.Outcome) {
	level, what := slog.LevelWarn, "tool failed"
	if out.Disclosed { // what the caller reads, that the user declined above all, is no alarm
		level, what = slog.LevelInfo, "tool stopped"
	}
	r.Log.Log(ctx, level, what, "tool", of.Program.Name, "saga", of.Saga.String(), "error", out.Err)
}

// Features are what a saga may ask for: what the client can do, and the server's model.
func (r *Runner) Features(client steps.Features) steps.Features {
	if r.Model == nil {
		return client
	}
	return client.With(modelFeatures)
}

// advance takes the turns for which the client is not needed: its answers were sent ahead, or the server's own model gives
// them; an event has happened, or another person has answered; the saga sleeps, but not for long; or it has yielded a part that
// the dialect cannot pass on before the result. The client gets the steps that are left. With an error comes the last outcome
// before it.
func (r *Runner) advance(ctx context.Context, q *Request, t *engine.Program, out *engine.Outcome, ahead []steps.Answer, m Remembered) (*engine.Outcome, error) {
	ahead = slices.Clone(ahead)
	for n := 0; n < maxOwnTurns || out.Position == nil; n++ {
		if out.Position == nil {
			return out, nil
		}
		if m != nil {
			m.Did(out.Position)
		}
		goesOn := false
		if out.Yielded != nil && !q.Parts || !out.Position.Wake.IsZero() {
			var err error
			if goesOn, err = r.goesOn(ctx, q, out); err != nil {
				return out, err
			}
		}
		if goesOn && n == maxOwnTurns-1 {
			return out, nil // the client can come back at once, and the saga continues
		}
		answers, left, err := r.ownAnswers(ctx, q, t, out.Steps, ahead)
		if err != nil {
			return out, err
		}
		usedAhead := len(ahead) - len(left)
		ahead = left
		var events []steps.Answer
		if out.Position.Awaits() {
			if m != nil && t.AsksOthers() { // they answer on a page that reads the row, which has to be there first
				if err := m.Acting(ctx); err != nil {
					return out, err
				}
			}
			if events, err = r.memory.Register(ctx, q.Principal, t, out.Position); err != nil {
				return out, err
			}
			if out.Position.Asks() {
				events = nil // they are noted now, and looked for again when the client has answered
			}
		}
		if len(answers)+len(events) == 0 && !goesOn {
			return out, nil
		}
		res := r.call(q, m)
		// What may have been lost is the part that Start or Continue has taken.
		res.Now, res.Lost, res.Answers, res.Events = later(r.Now(), out.Position.Wake), false, answers, events
		if err := r.Mark(ctx, t, &res); err != nil {
			return out, err
		}
		q.turn.hears(events)
		if m != nil {
			res.Now = m.GoesOn(out.Position, answers)
			m.Heard(t, out.Position, events)
		}
		next, err := t.Resume(ctx, out.Position, res)
		if len(out.Position.Parts) > 0 {
			carry(next, out.Position)
		}
		var malformed *engine.AnswerError
		switch {
		case errors.As(err, &malformed) && usedAhead > 0:
			// What was sent ahead is no answer. The saga has begun and is not to be
			// lost for that: ask.
			ahead = nil
		case err != nil:
			return out, err
		default:
			out = next
		}
	}
	return out, errOwnTurns
}

// ownAnswers returns the answers to questions that the client need not be asked, and what is left of those that it
// has sent ahead.
func (r *Runner) ownAnswers(ctx context.Context, q *Request, t *engine.Program, asked []steps.Step, ahead []steps.Answer) (answers, left []steps.Answer, err error) {
	for _, step := range asked {
		if i := slices.IndexFunc(ahead, func(a steps.Answer) bool { return a.StepID == step.ID }); i >= 0 {
			answers = append(answers, ahead[i])
			ahead = slices.Delete(ahead, i, i+1)
		} else if !q.Client.Has(step.Needs) {
			answer, err := r.sample(ctx, t, step)
			if err != nil {
				return nil, nil, err
			}
			answers = append(answers, answer)
		}
	}
	return answers, ahead, nil
}
