package saga

import (
	"context"
	"fmt"
)

// Cancel ends the saga that stands at pos and undoes its effects. Its outcome is
// always finished.
//
// If r answers all steps that are waited for, the turn is run first: the client
// may have sent those answers before, and the turn may have performed effects of
// which the client never heard. Performing them again finds them by their keys;
// then they are undone. If that turn ends the saga, it is too late to cancel, and
// the outcome is that of the turn. If r answers only some steps, or none, what is
// undone are the effects that pos knows of.
func (t *Tool) Cancel(ctx context.Context, pos *Position, r Resumption) (*Outcome, error) {
	log := pos.log
	if len(r.Answers) > 0 && t.current(pos) == nil {
		out, err := t.Resume(ctx, pos, r)
		switch {
		case err != nil:
			return nil, err
		case out.Position == nil:
			return out, nil
		}
		log = out.Position.log
	}
	return t.undone(ctx, pos.ID, log, "Cancelled."), nil
}

// Abandon undoes the effects of a saga that cannot go on, as its token came too
// late or its revision is no longer served. why is for the caller.
func (t *Tool) Abandon(ctx context.Context, pos *Position, why string) *Outcome {
	out := t.undone(ctx, pos.ID, pos.log, why)
	out.Result.IsError = true
	return out
}

func (t *Tool) undone(ctx context.Context, id ID, log *effectLog, text string) *Outcome {
	out := &Outcome{Result: TextResult("%s", text)}
	undo := t.compensate(ctx, id, log)
	if undo == nil {
		undo = &UndoReport{Undone: []string{}, Outstanding: []string{}}
		out.Result.Meta = map[string]any{UndoMetaKey: undo}
		return out
	}
	out.addUndo(undo)
	return out
}

// HasEffects reports whether the saga has begun effects.
func (p *Position) HasEffects() bool { return p.log != nil && len(p.log.records) > 0 }

// current reports why a position cannot be resumed by this tool, or nil.
func (t *Tool) current(pos *Position) error {
	switch {
	case pos.Tool != t.Name:
		return fmt.Errorf("it belongs to the tool %q", pos.Tool)
	case !t.program.reads(pos.Revision):
		return fmt.Errorf("it belongs to revision %d", pos.Revision)
	case !t.program.has(pos.next):
		return fmt.Errorf("there is no step function %q", pos.next)
	}
	return nil
}
