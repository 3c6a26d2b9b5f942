package turns

import (
	"context"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// EncodeUndoing encodes how a turn of a task has ended whose effects are about to be undone, for
// [Runner.GoOnUndoing].
func EncodeUndoing(u engine.Undoing) ([]byte, error) {
	var end End
	if u.Outcome != nil {
		end.Outcome = *u.Outcome
	}
	return encodeResponse(&end, u.Err)
}

// GoOnUndoing ends a task that another process had begun to undo: t.Position is that of the
// [engine.Undoing]. With the response of a turn it ends as that has, and otherwise as one that was
// cancelled, or for the reason why, which the client reads.
func (r *Runner) GoOnUndoing(ctx context.Context, t TaskTurn, response []byte, why string) (End, error) {
	return r.taskTurn(ctx, &t, "cancel", func(ctx context.Context) (*engine.Outcome, tokens.Reason, error) {
		if t.Position == nil {
			return undoneNothing(why), "", nil
		}
		if response == nil {
			out, err := t.Program.Cancel(ctx, t.Position, engine.Resumption{Now: later(t.Now, t.Position.Wake), Latest: true, Why: why, Acting: t.Acting, Undoing: t.Undoing})
			return out, "", err
		}
		end, failure, err := decodeResponse(response)
		if err != nil {
			return nil, "", err
		}
		u := engine.Undoing{Position: t.Position, Err: failure}
		if failure == nil {
			u.Outcome = &end.Outcome
		}
		if err := t.Undoing(ctx, u); err != nil {
			return nil, "", err
		}
		out, err := t.Program.Undo(ctx, u)
		return out, "", err
	})
}
