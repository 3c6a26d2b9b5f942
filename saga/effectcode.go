package saga

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/schema"
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
	*d = engine.Declaration{Name: e.Name, Self: e, Irreversible: e.Irreversible, Undoable: e.Undo != nil, ReadOnly: e.ReadOnly}
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
	case e.ReadOnly && (e.Undo != nil || e.Irreversible):
		d.Problem = "is ReadOnly, and so has nothing to undo and cannot be Irreversible"
	case e.AtOnce > mostAtOnce:
		d.Problem = fmt.Sprintf("has an AtOnce of more than %d", mostAtOnce)
	case !distinct(e.Fails):
		d.Problem = "has Fails of which one is nil or has no text, or two have the same text"
	case len(e.BuildsOn) > 0 && e.Undo == nil:
		d.Problem = "has BuildsOn but no Undo that could need it"
	default:
		var in, out error
		c.in, in = checkKept(reflect.TypeFor[In](), jsonEncoding{}, "its input")
		c.out, out = checkKept(reflect.TypeFor[Out](), jsonEncoding{}, "its result")
		d.Unrecordable = errors.Join(in, out)
	}
	return c
}

// distinct reports whether errors can be told apart by their texts.
func distinct(list []error) bool {
	texts := make(map[string]bool, len(list))
	for _, err := range list {
		if err == nil || err.Error() == "" || texts[err.Error()] {
			return false
		}
		texts[err.Error()] = true
	}
	return true
}

// Declaration is what the engine knows of the effect.
func (c *effectCode[In, Out]) Declaration() engine.Declaration { return c.declaration }

// read decodes what is recorded; the result is the zero value unless it is known.
func (c *effectCode[In, Out]) read(r *engine.EffectRecord) (in In, out Out, err error) {
	err = engine.Protect(func() error { // from the methods of the types
		if err := decodeValue(c.in, r.In, &in, r.Old); err != nil {
			return fmt.Errorf("its recorded input cannot be read: %w", err)
		}
		if r.Done() {
			if err := decodeValue(c.out, r.Out, &out, r.Old); err != nil {
				return fmt.Errorf("its recorded result cannot be read: %w", err)
			}
		}
		return nil
	})
	return in, out, err
}

// Readable reports whether what is recorded has its place in the types.
func (c *effectCode[In, Out]) Readable(r *engine.EffectRecord) error {
	_, _, err := c.read(r)
	return err
}

// Input encodes the recorded input anew.
func (c *effectCode[In, Out]) Input(r *engine.EffectRecord) (sagahooks.Value, error) {
	in, _, err := c.read(r)
	if err != nil {
		return sagahooks.Value{}, err
	}
	return c.encode(&in)
}

// Undo calls the effect's Undo.
func (c *effectCode[In, Out]) Undo(ctx context.Context, key string, r *engine.EffectRecord, each engine.Bound) error {
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
	_, err = c.attempt(ctx, engine.EffectCall{Name: e.Name, Key: key, Undo: true}, func(ctx context.Context) (none sagahooks.Value, err error) {
		perform := func(ctx context.Context) (sagahooks.Value, error) {
			return none, e.Undo(ctx, Performed[In, Out]{Key(key), in, out, r.Done()})
		}
		world := sagahooks.From(ctx)
		if world == nil {
			return perform(ctx)
		}
		_, err = world.Perform(ctx, sagahooks.Call{Effect: e.Name, Key: key, Input: r.In, Undo: true, Known: r.Done(), Undoable: true, Irreversible: e.Irreversible}, perform)
		return none, err
	}, each)
	return err
}

// Redo performs the effect again: in a test, if each is nil.
func (c *effectCode[In, Out]) Redo(ctx context.Context, key string, r *engine.EffectRecord, each engine.Bound) error {
	e := c.effect
	in, _, err := c.read(r)
	if err != nil {
		return err
	}
	if each == nil {
		_, err = e.Do(ctx, Key(key), in)
		return err
	}
	_, err = c.attempt(ctx, engine.EffectCall{Name: e.Name, Key: key}, func(ctx context.Context) (none sagahooks.Value, err error) {
		_, err = c.do(ctx, Key(key), in, r.In)
		return none, err
	}, each)
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return fmt.Errorf("%w: %w", engine.ErrNothingToUndo, refused.err)
	}
	return err
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
	if input, err = encodeValue(c.in, &in, keptOptions); err != nil {
		return input, result, fmt.Errorf("its input: %w", err)
	}
	result, err = encodeValue(c.out, &out, schema.JSONOptions)
	return input, result, err
}

// encodeValue returns an effect's input or result, to which v points, as it is
// recorded: its secrets are beside the JSON.
func encodeValue(secrets []secretField, v any, options jsonv2.Options) (sagahooks.Value, error) {
	raw, err := encodeKept(v, options)
	if err != nil {
		return sagahooks.Value{}, err
	}
	return sagahooks.Value{JSON: raw, Secrets: gather(secrets, reflect.ValueOf(v).Elem())}, nil
}

// decodeValue undoes encodeValue. It fails if something was recorded for which the
// type has no place, unless an old revision recorded it: to undo with half of an input
// would be worse than not to undo.
func decodeValue(secrets []secretField, recorded sagahooks.Value, v any, old bool) error {
	options := schema.StrictJSONOptions
	if old {
		options = schema.JSONOptions
	}
	if err := jsonv2.Unmarshal(recorded.JSON, v, options); err != nil {
		return err
	}
	err := scatter(secrets, reflect.ValueOf(v).Elem(), recorded.Secrets)
	if lost := (*lostSecretError)(nil); old && errors.As(err, &lost) {
		return nil
	}
	return err
}

// adopt returns what a test gives in place of an effect's input or result: a value of
// its type, or one that encodes to the same JSON.
func adopt[T any](given any) (v T, err error) {
	switch given := given.(type) {
	case T:
		return given, nil
	case *T:
		if given != nil {
			return *given, nil
		}
	}
	raw, err := jsonv2.Marshal(given, schema.JSONOptions)
	if err != nil {
		return v, err
	}
	return v, jsonv2.Unmarshal(raw, &v, schema.JSONOptions)
}

// Final marks an error of an effect's Undo: what was done can no longer be
// reversed, such as a hold that has been paid. The undo stops there, and what was
// done before the effect is left as it is.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &engine.FinalError{Err: err}
}
