package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// effectCode is an effect as the engine has it.
type effectCode[In, Out any] struct {
	effect *Effect[In, Out]
	// in and out are the secrets in its input and result.
	in, out     []secretField
	declaration engine.Declaration
}

func (e *Effect[In, Out]) reference() engine.Declaration {
	if e == nil {
		return engine.Declaration{}
	}
	return engine.Declaration{Name: e.Name, Self: e}
}

func (e *Effect[In, Out]) compiled() engine.Effect {
	c := &effectCode[In, Out]{effect: e}
	if e == nil {
		c.declaration.Problem = "is nil"
		return c
	}
	d := &c.declaration
	*d = engine.Declaration{Name: e.Name, Self: e, Irreversible: e.Irreversible, Undoable: e.Undo != nil}
	for _, on := range e.BuildsOn {
		if on == nil {
			d.BuildsOn = append(d.BuildsOn, engine.Declaration{})
			continue
		}
		d.BuildsOn = append(d.BuildsOn, on.reference())
	}
	switch {
	case e.Name == "":
		d.Problem = "has no Name"
	case !ident.Valid(e.Name):
		d.Problem = "has a name that cannot be used; a name is " + ident.Rule
	case e.Do == nil:
		d.Problem = "has no Do"
	case len(e.BuildsOn) > 0 && e.Undo == nil:
		d.Problem = "has BuildsOn but no Undo that could need it"
	default:
		var in, out error
		c.in, in = checkRecorded[In]("its input")
		c.out, out = checkRecorded[Out]("its result")
		d.Unrecordable = errors.Join(in, out)
	}
	return c
}

// Declaration is what the engine knows of the effect.
func (c *effectCode[In, Out]) Declaration() engine.Declaration { return c.declaration }

// read decodes what is recorded; the result is the zero value unless it is known.
func (c *effectCode[In, Out]) read(r *engine.EffectRecord) (in In, out Out, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &engine.PanicError{Value: v, Stack: debug.Stack()} // in a method of the type
		}
	}()
	if err := decodeValue(c.in, r.Input(), &in, r.Old()); err != nil {
		return in, out, fmt.Errorf("its recorded input cannot be read: %w", err)
	}
	if r.Done() {
		if err := decodeValue(c.out, r.Output(), &out, r.Old()); err != nil {
			return in, out, fmt.Errorf("its recorded result cannot be read: %w", err)
		}
	}
	return in, out, nil
}

// Readable reports whether what is recorded has its place in the types.
func (c *effectCode[In, Out]) Readable(r *engine.EffectRecord) error {
	_, _, err := c.read(r)
	return err
}

// Undo calls the effect's Undo.
func (c *effectCode[In, Out]) Undo(ctx context.Context, key string, r *engine.EffectRecord) error {
	e := c.effect
	switch {
	case e.Undo == nil && e.Irreversible:
		return errors.New("it has no Undo that could tell")
	case e.Undo == nil:
		return engine.ErrNothingToUndo
	}
	in, out, err := c.read(r)
	if err != nil {
		return err
	}
	_, err = attempt(ctx, e.Timeout, e.Tries, engine.EffectCall{Name: e.Name, Key: key, Undo: true}, func(ctx context.Context) (struct{}, error) {
		perform := func(ctx context.Context) (sagahooks.Value, error) {
			return sagahooks.Value{}, e.Undo(ctx, Performed[In, Out]{Key(key), in, out, r.Done()})
		}
		world := sagahooks.From(ctx)
		if world == nil {
			_, err := perform(ctx)
			return struct{}{}, err
		}
		_, err := world.Perform(ctx, sagahooks.Call{Effect: e.Name, Key: key, Input: r.Input(), Undo: true, Known: r.Done(), Undoable: true}, perform)
		return struct{}{}, err
	})
	return err
}

// Redo performs the effect again, in the world of a test.
func (c *effectCode[In, Out]) Redo(ctx context.Context, key string, r *engine.EffectRecord) error {
	in, _, err := c.read(r)
	if err != nil {
		return err
	}
	_, err = c.effect.Do(ctx, Key(key), in)
	return err
}

// Decoded shows what is recorded to a test.
func (c *effectCode[In, Out]) Decoded(r *engine.EffectRecord) (input, result json.RawMessage, err error) {
	in, out, err := c.read(r)
	if err != nil {
		return nil, nil, err
	}
	if input, err = shown(&in); err != nil || !r.Done() {
		return input, nil, err
	}
	result, err = shown(&out)
	return input, result, err
}

// Stage encodes an input and a result that a test supplies.
func (c *effectCode[In, Out]) Stage(p sagahooks.Performed) (input, result sagahooks.Value, err error) {
	in, err := adopt[In](p.Input)
	if err != nil {
		return input, result, fmt.Errorf("its input: %w", err)
	}
	out, err := adopt[Out](p.Output)
	if err != nil {
		return input, result, fmt.Errorf("its result: %w", err)
	}
	if input, err = encodeValue(c.in, &in); err != nil {
		return input, result, fmt.Errorf("its input: %w", err)
	}
	result, err = encodeValue(c.out, &out)
	return input, result, err
}
