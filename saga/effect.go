package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Effect is something a saga does to the world, such as holding a hotel room,
// declared once as a package variable:
//
//	var HoldHotel = &saga.Effect[HotelRequest, Hold]{Name: "hold-hotel", Do: hold, Undo: release}
//
// and performed with [Do]. When the saga ends badly, its effects are undone in
// reverse order.
//
// In and Out are recorded as JSON, so they follow the rules for states, and like
// these can have fields of type [Secret].
//
// A server that keeps nothing cannot know whether a turn that was cut off had
// performed an effect. It performs it again with the same [Key]; the system
// behind it must recognise the key and not act twice.
type Effect[In, Out any] struct {
	// Name identifies the effect within the tool: 1 to 64 characters of A-Z a-z 0-9
	// _ - . : / . It is part of suspended sagas and of keys: do not change it.
	Name string
	// Do performs the effect. An error means that the outcome is unknown (it is
	// then tried again), unless it is wrapped by [Refused].
	Do func(ctx context.Context, key Key, in In) (Out, error)
	// Undo reverses the effect; nil if there is nothing to reverse. It may be called
	// more than once. When what was done has been made final by other means, it must
	// fail with [Final]; what was done before is then not undone either.
	Undo func(ctx context.Context, p Performed[In, Out]) error
	// Irreversible marks the point after which the saga only goes forward: once
	// this effect is done, nothing is undone any more. While its outcome is
	// unknown, nothing is undone and the saga does not end badly; the same turn can be
	// taken again. A good result ends it all the same: code that gives one instead of the
	// error of [Do] has decided so.
	//
	// With an Undo, it can be known: Undo is called only as long as the effect is
	// not known to be done, and must prevent it from being done later, or fail
	// with [Final] if it has been. A saga that is cancelled then stops before
	// this effect. Without an Undo, a server without a ledger performs it when a saga
	// is cancelled together with the answers that lead here; one with a ledger does so
	// only if a turn has begun it and its outcome is unknown.
	Irreversible bool
	// ReadOnly says that the effect only looks something up, and changes nothing: it has nothing to
	// undo, and may come before the first question. What it found is recorded as ever; a turn that
	// is taken again looks again, and may find something else.
	ReadOnly bool
	// BuildsOn are the effects without which this one cannot be undone, such as the
	// backup that Undo restores. As long as undoing this one has failed, they are not
	// undone either, nor what they build on: they stay outstanding with it, and are
	// undone after it when that is tried again. They must be among the tool's Effects.
	BuildsOn []Declared
	// Timeout bounds each try of Do and Undo, by their context. Both must return when
	// it ends. An Undo that does not is given up a second later, and a Do when the turn's time
	// is over: its outcome is then unknown. Default 30 seconds.
	Timeout time.Duration
	// Tries is how often Do and Undo are tried in one turn, with growing pauses.
	// Default 3.
	Tries int
	// Fails are the errors of Do that the saga distinguishes. What an effect has failed with is recorded as
	// text, for a flow that runs again; of these it is recorded as well which of them the error wraps. So [errors.Is]
	// holds for these in every run, and for no others in any. Their texts are part of suspended sagas,
	// and must differ.
	Fails []error
	// AtOnce is how many of a [DoAll] are performed at the same time: at most 64. Default 8.
	AtOnce int
}

// Performed is an effect that is to be undone.
type Performed[In, Out any] struct {
	// Key is the one with which it was performed, In what it was given.
	Key Key
	In  In
	// Out is what Do returned, if Known. Otherwise Do did not report success, and Out is
	// the zero value: find out by the key whether there is something to undo.
	Out   Out
	Known bool
}

// Key is an effect's idempotency key: the same for every try of the same effect
// in the same saga, different for all others. It holds 43 characters of A-Z a-z
// 0-9 - _ and does not depend on the keys that seal tokens.
type Key string

// Refused marks an error of an effect's Do as final: nothing was done under the key, and
// trying again would not help. The effect is then not tried again, and as a rule not undone.
//
// It is about the key. An earlier try with the same key, of a turn that was lost, may have
// done something. So use it only if the system behind has looked whether it knows the key
// before it refused for another reason, such as a permission that is gone. If you cannot
// be sure, return the error as it is: the effect is then tried again, and at last undone.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err}
}

type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// EffectError says that an effect was not performed, or not for certain.
type EffectError struct {
	// Effect is the effect's name.
	Effect string
	// Unknown: it may have been performed all the same.
	Unknown bool
	// Err is the cause, as it is recorded: its text, and those of the effect's Fails that it wraps.
	Err error
}

// Error implements error.
func (e *EffectError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("effect %q has an unknown outcome: %v", e.Effect, e.Err)
	}
	return fmt.Sprintf("effect %q: %v", e.Effect, e.Err)
}

// Unwrap returns Err.
func (e *EffectError) Unwrap() error { return e.Err }

// Context is the context of a turn, in which effects can be performed: a *[Turn] or a
// *[Run].
type Context interface {
	context.Context
	running() *engine.Turn
}

// Declared is an *[Effect] of any types, as listed in a tool's Effects.
type Declared interface {
	// compiled returns the effect as the engine has it.
	compiled() engine.Effect
	// reference is what another effect says that builds on this one.
	reference() engine.Declaration
}

// declared are a definition's effects as the engine has them; those that its author
// left nil stay so.
func declared(effects []Declared) []engine.Effect {
	list := make([]engine.Effect, len(effects))
	for i, e := range effects {
		if e != nil {
			list[i] = e.compiled()
		}
	}
	return list
}

// Do performs an effect once per saga as far as can be: a flow that runs again
// gets the recorded result, and the first run what was recorded just now; a turn that is repeated performs it again with the
// same key. Its error is an *[EffectError]. The effect must be listed in the
// tool's Effects.
func Do[In, Out any](ctx Context, e *Effect[In, Out], in In) (Out, error) {
	var out Out
	t := ctx.running()
	if err := t.Enter("saga.Do", e.Name); err != nil {
		return out, err
	}
	defer t.Leave()
	c, err := e.declaredIn(t)
	if err != nil {
		return out, err
	}
	input, err := c.encode(&in)
	if err != nil {
		return out, err
	}
	record, key, err := t.Begin(c.declaration, input)
	if err != nil {
		return out, err
	}
	var failed *EffectError
	if key == "" { // it was begun in an earlier turn
		out, failed, err = c.recall(record)
	} else if out, failed, err = c.try(t, record, key); err == nil {
		err = t.Performed()
	}
	if err == nil && failed != nil {
		err = failed
	}
	return out, err
}

// declaredIn returns the effect as the engine has it.
func (e *Effect[In, Out]) declaredIn(t *engine.Turn) (*effectCode[In, Out], error) {
	c, ok := t.Effect(e.Name).(*effectCode[In, Out])
	if !ok || c.effect != e {
		return nil, fmt.Errorf("effect %q is not declared; add it to the tool's Effects", e.Name)
	}
	return c, nil
}

func (c *effectCode[In, Out]) encode(in *In) (sagahooks.Value, error) {
	input, err := encodeValue(c.in, in, keptOptions)
	if err != nil {
		return input, fmt.Errorf("effect %q: its input cannot be encoded: %w", c.effect.Name, err)
	}
	return input, nil
}

// recall returns how an effect has ended that was begun in an earlier turn.
func (c *effectCode[In, Out]) recall(r *engine.EffectRecord) (out Out, failed *EffectError, err error) {
	if err := r.Failure(c.effect.Fails); err != nil {
		return out, &EffectError{c.effect.Name, r.Unknown(), err}, nil
	}
	if err := decodeValue(c.out, r.Out, &out, r.Old); err != nil {
		return out, nil, fmt.Errorf("effect %q: its recorded result cannot be read: %w", c.effect.Name, err)
	}
	return out, nil, nil
}

// try performs an effect, as often as it may be tried, and records how it has ended. It returns what is recorded, as later
// runs do. It fails if the turn must not go on.
func (c *effectCode[In, Out]) try(t *engine.Turn, r *engine.EffectRecord, key string) (out Out, failed *EffectError, over error) {
	e := c.effect
	output, err := c.attempt(t, engine.EffectCall{Name: e.Name, Key: key}, func(ctx context.Context) (sagahooks.Value, error) {
		in, _, err := c.read(r) // for each try its own, which it may change
		if err != nil {
			return sagahooks.Value{}, Refused(err)
		}
		got, err := c.do(ctx, Key(key), in, r.In)
		if err != nil {
			return sagahooks.Value{}, err
		}
		return encodeValue(c.out, &got, schema.JSONOptions)
	}, nil)
	if err == nil {
		if over = t.Succeeded(r, output); over != nil {
			return out, nil, over
		}
		return c.recall(r)
	}
	failed = &EffectError{Effect: e.Name, Unknown: true}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		failed.Unknown, err = false, refused.err
	}
	failed.Err, over = t.Failed(r, err, e.Fails, !failed.Unknown)
	return out, failed, over
}

// do calls Do; in a test by way of the test's world.
func (c *effectCode[In, Out]) do(ctx context.Context, key Key, in In, input sagahooks.Value) (out Out, err error) {
	e := c.effect
	world := sagahooks.From(ctx)
	if world == nil {
		return e.Do(ctx, key, in)
	}
	call := sagahooks.Call{Effect: e.Name, Key: string(key), Input: input, Undoable: e.Undo != nil, Irreversible: e.Irreversible, ReadOnly: e.ReadOnly}
	believed, err := world.Perform(ctx, call, func(ctx context.Context) (sagahooks.Value, error) {
		if out, err = e.Do(ctx, key, in); err != nil {
			return sagahooks.Value{}, err
		}
		return encodeValue(c.out, &out, schema.JSONOptions)
	})
	if _, performed := believed.(sagahooks.Value); performed || err != nil {
		return out, err
	}
	return adopt[Out](believed)
}

// Defaults of effects.
const (
	effectTimeout = 30 * time.Second
	effectTries   = 3
	effectAtOnce  = 8
)

const mostAtOnce = 64

// attempt calls f until it succeeds, is refused, or the tries are used up; each time with
// the operator's hook around it, if there is one, and by within, if that is not nil.
func (c *effectCode[In, Out]) attempt(ctx context.Context, call engine.EffectCall, f func(context.Context) (sagahooks.Value, error), within engine.Bound) (sagahooks.Value, error) {
	timeout, tries := c.effect.Timeout, c.effect.Tries
	if timeout <= 0 {
		timeout = effectTimeout
	}
	if tries <= 0 {
		tries = effectTries
	}
	around := engine.EffectHookOf(ctx)
	return backoff.Retry(ctx, func() (v sagahooks.Value, err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		call.Attempt++
		got, call := new(sagahooks.Value), call // of this try, which may be left alone
		perform := func(ctx context.Context) error {
			return engine.Protect(func() (err error) {
				*got, err = f(ctx)
				return err
			})
		}
		try := func() error { return perform(ctx) }
		if around != nil {
			try = func() error { return around(ctx, call, perform) }
		}
		if within == nil || sagahooks.From(ctx) != nil {
			err = try()
		} else if err = within(ctx, try); errors.As(err, new(*engine.HangError)) {
			return v, backoff.Permanent(err)
		}
		if errors.As(err, new(*refusedError)) || errors.As(err, new(*engine.FinalError)) || errors.As(err, new(*engine.PanicError)) {
			err = backoff.Permanent(err) // to try again cannot change it
		}
		return *got, err
	}, backoff.WithMaxTries(uint(tries)), backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pauses(ctx))) // a quarter of an hour is its default
}

// pauses are what lies between two tries; tests do not wait.
func pauses(ctx context.Context) backoff.BackOff {
	if sagahooks.From(ctx) != nil {
		return &backoff.ZeroBackOff{}
	}
	return backoff.NewExponentialBackOff()
}
