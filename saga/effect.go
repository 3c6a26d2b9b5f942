package saga

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
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
	// Undo reverses the effect; nil if there is nothing to reverse. If known is
	// false, Do did not report success, and out is the zero value: find out by the
	// key whether there is something to undo. Undo may be called more than once.
	// When what was done has been made final by other means, it must fail with
	// [Final]; what was done before is then not undone either.
	Undo func(ctx context.Context, key Key, in In, out Out, known bool) error
	// Irreversible marks the point after which the saga only goes forward: once
	// this effect is done, nothing is undone any more. While its outcome is
	// unknown, nothing is undone and the saga does not end; the same turn can be
	// taken again.
	//
	// With an Undo, it can be told: that is called only as long as the effect is
	// not known to be done, and must prevent it from being done later, or fail
	// with [Final] if it has been. A saga that is cancelled then stops before
	// this effect. Without an Undo, cancelling a saga together with the answers
	// that lead here performs it.
	Irreversible bool
	// BuildsOn are the effects without which this one cannot be undone, such as the
	// backup that Undo restores. As long as undoing this one has failed, they are not
	// undone either, nor what they build on: they stay outstanding with it, and are
	// undone after it when that is tried again. They must be among the tool's Effects.
	BuildsOn []Declared
	// Timeout bounds each try of Do and Undo, by their context. Both must return when
	// it ends. Default 30 seconds.
	Timeout time.Duration
	// Tries is how often Do and Undo are tried in one turn, with growing pauses.
	// Default 3.
	Tries int
}

// Key is an effect's idempotency key: the same for every try of the same effect
// in the same saga, different for all others. It holds 43 characters of A-Z a-z
// 0-9 - _ and does not depend on the keys that seal tokens.
type Key string

// effectKey derives the key of the n-th effect of a name in a saga.
func effectKey(saga ID, name string, n int) Key {
	h := sha256.New()
	h.Write([]byte("mcpsaga effect 1\x00"))
	h.Write(saga[:])
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
	h.Write([]byte(name))
	return Key(base64.RawURLEncoding.EncodeToString(h.Sum(nil)))
}

// Refused marks an error of an effect as final: nothing was done, and trying
// again would not help.
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
	// Err is the cause.
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

// Performer is what effects are performed in: a *[Turn] or a *[Run].
type Performer interface{ performer() *turnContext }

// Declared is an *[Effect] of any types, as listed in a tool's Effects.
type Declared interface {
	declaration() declaration
	recordable() (in, out []secretField, err error)
	undo(ctx context.Context, key Key, d *declaredEffect, e *effectRecord) error
	redo(ctx context.Context, key Key, d *declaredEffect, e *effectRecord) error
	readable(d *declaredEffect, e *effectRecord) error
	decoded(d *declaredEffect, e *effectRecord) (input, result any, err error)
	stage(d *declaredEffect, p sagahooks.Performed) (in, out sagahooks.Value, err error)
}

// Do performs an effect once per saga as far as can be: a flow that runs again
// gets the recorded result; a turn that is repeated performs it again with the
// same key. Its error is an *[EffectError]. The effect must be listed in the
// tool's Effects.
func Do[In, Out any](p Performer, e *Effect[In, Out], in In) (Out, error) {
	var out Out
	tc := p.performer()
	if tc.latched != nil {
		if _, waits := tc.latched.(*suspended); waits {
			if world := sagahooks.From(tc); world != nil {
				world.Late(e.Name)
			}
		}
		return out, tc.latched
	}
	d := tc.tool.effects[e.Name]
	if d == nil || d.Declared != Declared(e) {
		return out, fmt.Errorf("effect %q is not declared; add it to the tool's Effects", e.Name)
	}
	input, err := encodeValue(d.in, &in)
	if err != nil {
		return out, fmt.Errorf("effect %q: its input cannot be encoded: %w", e.Name, err)
	}
	record, n, err := tc.log.find(e.Name, input)
	if err != nil {
		return out, tc.replay.diverges(err)
	}
	if record != nil {
		return recorded[Out](d, record)
	}
	if err := tc.replay.admit("effect", e.Name); err != nil {
		return out, err
	}
	record = tc.log.begin(e.Name, n, input)
	if e.Irreversible && e.Undo != nil && tc.log.stopAtFinal {
		tc.log.stopped = &stoppedError{e.Name}
		tc.latched = tc.log.stopped
		return out, tc.latched
	}
	out, err = attempt(tc, e.Timeout, e.Tries, func(ctx context.Context) (Out, error) {
		return e.do(ctx, effectKey(tc.id, e.Name, record.n), d, in, input)
	})
	if err == nil {
		if record.out, err = encodeValue(d.out, &out); err == nil {
			record.status = effectDone
			return out, nil
		}
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		record.status, err = effectRefused, refused.err
	}
	record.out = sagahooks.Value{JSON: []byte(err.Error())}
	return out, &EffectError{e.Name, record.status == effectUnknown, err}
}

// do calls Do; in a test by way of the test's world.
func (e *Effect[In, Out]) do(ctx context.Context, key Key, d *declaredEffect, in In, input sagahooks.Value) (out Out, err error) {
	world := sagahooks.From(ctx)
	if world == nil {
		return e.Do(ctx, key, in)
	}
	var output sagahooks.Value
	call := sagahooks.Call{Effect: e.Name, Key: string(key), Input: input, Undoable: e.Undo != nil, Irreversible: e.Irreversible}
	believed, err := world.Perform(ctx, call, func(ctx context.Context) (sagahooks.Value, error) {
		if out, err = e.Do(ctx, key, in); err != nil {
			return sagahooks.Value{}, err
		}
		output, err = encodeValue(d.out, &out)
		return output, err
	})
	if _, performed := believed.(sagahooks.Value); performed || err != nil {
		return out, err
	}
	return adopt[Out](believed)
}

// recorded returns how an effect ended in an earlier turn.
func recorded[Out any](d *declaredEffect, r *effectRecord) (out Out, err error) {
	if r.status != effectDone {
		return out, &EffectError{r.name, r.status == effectUnknown, errors.New(string(r.out.JSON))}
	}
	if err := decodeValue(d.out, r.out, &out, r.old); err != nil {
		return out, fmt.Errorf("effect %q: its recorded result cannot be read: %w", r.name, err)
	}
	return out, nil
}

// Defaults of effects.
const (
	effectTimeout = 30 * time.Second
	effectTries   = 3
)

// attempt calls f until it succeeds, is refused, or the tries are used up.
func attempt[T any](ctx context.Context, timeout time.Duration, tries int, f func(context.Context) (T, error)) (T, error) {
	if timeout <= 0 {
		timeout = effectTimeout
	}
	if tries <= 0 {
		tries = effectTries
	}
	return backoff.Retry(ctx, func() (v T, err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				err = backoff.Permanent(&PanicError{Value: p, Stack: debug.Stack()})
			}
		}()
		v, err = f(ctx)
		if isSettled(err) {
			err = backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithMaxTries(uint(tries)), backoff.WithBackOff(pauses(ctx)))
}

// pauses are what lies between two tries; tests do not wait.
func pauses(ctx context.Context) backoff.BackOff {
	if sagahooks.From(ctx) != nil {
		return &backoff.ZeroBackOff{}
	}
	return backoff.NewExponentialBackOff()
}

// declaration is what the engine knows of an effect apart from its types.
type declaration struct {
	name                   string
	irreversible, undoable bool
	buildsOn               []Declared
	problem                string // why it cannot be registered, or empty
}

func (e *Effect[In, Out]) declaration() declaration {
	if e == nil {
		return declaration{problem: "is nil"}
	}
	d := declaration{name: e.Name, irreversible: e.Irreversible, undoable: e.Undo != nil, buildsOn: e.BuildsOn}
	switch {
	case e.Name == "":
		d.problem = "has no Name"
	case !ident.Valid(e.Name):
		d.problem = "has a name that cannot be used; a name is " + ident.Rule
	case e.Do == nil:
		d.problem = "has no Do"
	case len(e.BuildsOn) > 0 && e.Undo == nil:
		d.problem = "has BuildsOn but no Undo that could need it"
	}
	return d
}

func (e *Effect[In, Out]) recordable() (in, out []secretField, err error) {
	in, inErr := checkRecorded[In]("its input")
	out, outErr := checkRecorded[Out]("its result")
	return in, out, errors.Join(inErr, outErr)
}

// read decodes what is recorded; the result is the zero value unless it is known.
func (e *Effect[In, Out]) read(d *declaredEffect, r *effectRecord) (in In, out Out, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()} // in a method of the type
		}
	}()
	if err := decodeValue(d.in, r.in, &in, r.old); err != nil {
		return in, out, fmt.Errorf("its recorded input cannot be read: %w", err)
	}
	if r.status == effectDone {
		if err := decodeValue(d.out, r.out, &out, r.old); err != nil {
			return in, out, fmt.Errorf("its recorded result cannot be read: %w", err)
		}
	}
	return in, out, nil
}

func (e *Effect[In, Out]) readable(d *declaredEffect, r *effectRecord) error {
	_, _, err := e.read(d, r)
	return err
}

func (e *Effect[In, Out]) undo(ctx context.Context, key Key, d *declaredEffect, r *effectRecord) error {
	switch {
	case e.Undo == nil && e.Irreversible:
		return errors.New("it has no Undo that could tell")
	case e.Undo == nil:
		return errNothingToUndo
	}
	in, out, err := e.read(d, r)
	if err != nil {
		return err
	}
	known := r.status == effectDone
	_, err = attempt(ctx, e.Timeout, e.Tries, func(ctx context.Context) (struct{}, error) {
		perform := func(ctx context.Context) (sagahooks.Value, error) {
			return sagahooks.Value{}, e.Undo(ctx, key, in, out, known)
		}
		world := sagahooks.From(ctx)
		if world == nil {
			_, err := perform(ctx)
			return struct{}{}, err
		}
		_, err := world.Perform(ctx, sagahooks.Call{Effect: e.Name, Key: string(key), Input: r.in, Undo: true, Known: known, Undoable: true}, perform)
		return struct{}{}, err
	})
	return err
}
