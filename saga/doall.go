package saga

import (
	"fmt"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// EffectErrors says which of the effects of a [DoAll] were not performed, or not for certain:
// for each input an error, or nil.
type EffectErrors []*EffectError

// Error implements error.
func (e EffectErrors) Error() string {
	all := e.Unwrap()
	text := fmt.Sprintf("%d of %d effects failed", len(all), len(e))
	for i, err := range e {
		if err != nil {
			return fmt.Sprintf("%s, the first with input %d: %v", text, i, err)
		}
	}
	return text
}

// Unwrap returns those that are not nil.
func (e EffectErrors) Unwrap() (list []error) {
	for _, err := range e {
		if err != nil {
			list = append(list, err)
		}
	}
	return list
}

// DoAll performs an effect for each of several inputs and returns when all have ended. Groups of
// AtOnce are performed at the same time, one group after the other. Keys, record and results are by the
// place of the input, as if [Do] were called in a loop; a saga that has begun in one way continues
// in the other. The effects are undone one by one, the last input first.
//
// Every input is tried, whatever becomes of the others; only when the turn's context has ended is no
// further group begun. If some fail, the error is an [EffectErrors], and the results of the others are
// returned with it. Return the error to have all undone, or continue with what was done.
//
// A task has a checkpoint after each group: if its server dies, that group is performed again with
// the same keys. DoAll refuses an effect that is Irreversible: once it is done for one input, those for the
// others could not be undone.
func DoAll[In, Out any](ctx Context, e *Effect[In, Out], in []In) ([]Out, error) {
	t := ctx.running()
	if err := t.Enter("saga.DoAll", e.Name); err != nil {
		return nil, err
	}
	defer t.Leave()
	c, err := e.declaredIn(t)
	if err != nil {
		return nil, err
	}
	if e.Irreversible {
		return nil, fmt.Errorf("effect %q is Irreversible: once it is done for one input, those for the others cannot be undone; perform it with Do", e.Name)
	}
	all := make([]performing[In, Out], len(in))
	for i := range in {
		all[i].in = in[i]
		if all[i].input, err = c.encode(&all[i].in); err != nil {
			return nil, err
		}
	}
	atOnce := e.AtOnce
	if atOnce <= 0 {
		atOnce = effectAtOnce
	}
	for group := range slices.Chunk(all, atOnce) {
		if err := c.together(t, group); err != nil {
			return nil, err
		}
	}
	outs, errs := make([]Out, len(in)), make(EffectErrors, len(in))
	for i := range all {
		outs[i], errs[i] = all[i].out, all[i].failed
	}
	if len(errs.Unwrap()) == 0 {
		return outs, nil
	}
	return outs, errs
}

// performing is an effect of a DoAll, and then how it has ended.
type performing[In, Out any] struct {
	in     In
	input  sagahooks.Value
	record *engine.EffectRecord
	key    string
	out    Out
	failed *EffectError
	over   error
}

// together performs effects at the same time. It fails if the turn must not go on.
func (c *effectCode[In, Out]) together(t *engine.Turn, group []performing[In, Out]) (err error) {
	fresh := group // but for those that were begun in an earlier turn: the first, as keys are counted
	for i := range group {
		p := &group[i]
		if p.record, p.key, err = t.Begin(c.declaration, p.input); err == nil && p.key == "" {
			fresh = group[i+1:]
			p.out, p.failed, err = c.recall(p.record)
		}
		if err != nil {
			return err
		}
	}
	ended := t.Err()
	t.Together(len(fresh), func(i int) {
		p := &fresh[i]
		if ended == nil {
			p.out, p.failed, p.over = c.try(t, p.record, p.key)
			return
		}
		p.failed = &EffectError{Effect: c.effect.Name}
		p.failed.Err, p.over = t.Failed(p.record, ended, nil, true)
	})
	for i := range fresh {
		if err := fresh[i].over; err != nil {
			return err
		}
	}
	return t.Performed()
}
