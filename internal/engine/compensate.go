package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// compensate undoes the effects in the log. One that fails does not keep the
// others from being undone, except those that it builds on, and all if it is final.
// It returns nil if there is nothing to do, an *UnsettledError if it is not known whether anything may
// be undone, and a *HaltedError if c does not let it. end is how the turn has ended, or nil.
func (t *Program) compensate(ctx context.Context, c *Call, log *effectLog, end *Outcome) (*UndoReport, error) {
	if len(log.records) == 0 {
		return nil, nil
	}
	report := &UndoReport{Undone: []string{}, Outstanding: []string{}}
	if report.Final = t.final(log); report.Final != "" {
		return report, nil
	}
	u := compensation{t: t, log: log, end: Undoing{Outcome: end}, report: report}
	if until, bounded := ctx.Deadline(); ctx.Err() != nil {
		u.until = time.Now().Add(UndoTime)
	} else if bounded {
		u.until = until.Add(UndoTime)
	}
	ctx = context.WithoutCancel(ctx)
	order := t.toUndo(log)
	for i, r := range order {
		if by := t.neededBy(r, u.again.records); by != "" {
			report.Kept = append(report.Kept, r.name)
			report.fail(r.name, fmt.Errorf("not tried, as %q builds on it and is not undone", by))
			u.again.records = append(u.again.records, r)
			continue
		}
		err := errUndeclared
		if e := t.effects[r.name]; e != nil {
			if err := u.announce(ctx, c, e.Declaration()); err != nil {
				return nil, err
			}
			err = u.undo(ctx, c, e, r, len(order)-i)
		}
		switch {
		case err == nil:
			report.Undone = append(report.Undone, r.name)
		case errors.Is(err, ErrNothingToUndo):
			if d := t.declared(r); !d.Undoable && !d.Irreversible && !d.ReadOnly {
				report.Stays = append(report.Stays, r.name)
			}
		case errors.As(err, new(*FinalError)):
			report.Final = r.name
			report.errs = append(report.errs, fmt.Errorf("undo of %q: %w", r.name, err))
			for _, before := range order[i+1:] {
				if !report.TooLate() && t.declared(before).Undoable {
					report.Left = append(report.Left, before.name)
				}
			}
			report.Again = t.again(c.ID, &u.again) // what came after it and could not be undone yet
			return report, nil
		case t.declared(r).Irreversible:
			return nil, &UnsettledError{t.Name, r.name, err}
		default:
			report.fail(r.name, err)
			report.doubtful = report.doubtful || r.status == effectDone
			u.again.records = append(u.again.records, r)
		}
	}
	report.Again = t.again(c.ID, &u.again)
	return report, nil
}

var errUndeclared = errors.New("the tool no longer declares it")

// compensation is the undo of a saga under way. It does not hold the call, which would then be on the heap in every turn.
type compensation struct {
	t      *Program
	log    *effectLog
	report *UndoReport
	again  effectLog // what could not be undone, in the order in which it was tried
	// until is when the time for it is over. If it is zero, the effects' own Timeout and Tries are all that bounds it.
	until time.Time
	// end is how the turn has ended, and said: the call has heard so.
	end  Undoing
	said bool
}

// announce says that an effect is about to be undone, to who remembers the saga.
//
// As long as only irreversible effects are found out about, the saga may still have to go forward;
// with the first other one it is decided that it does not. That one may turn out to be final, as may
// those after it as long as nothing is undone.
func (u *compensation) announce(ctx context.Context, c *Call, d Declaration) error {
	behind := len(u.again.records) > 0 && len(u.report.Undone) == 0
	switch {
	case !d.Undoable && !redoes(c, d):
	case d.Irreversible:
		return c.act(ctx)
	case c.Undoing != nil && (!u.said || behind && !u.end.Behind):
		u.said, u.end.Behind = true, behind
		u.end.Position = u.t.toCancel(c.ID, u.log)
		if err := c.Undoing(ctx, u.end); err != nil {
			return &HaltedError{err}
		}
	}
	return nil
}

// redoes reports whether an effect is performed again, as nothing else can tell what became of it.
func redoes(c *Call, d Declaration) bool {
	return c.Begun != nil && d.Irreversible && !d.Undoable
}

// undo undoes the effect of a record, which is one of several for which there is what is left of the time.
func (u *compensation) undo(ctx context.Context, c *Call, e Effect, r *EffectRecord, of int) error {
	if !u.until.IsZero() {
		share, cancel := context.WithTimeoutCause(ctx, time.Until(u.until)/time.Duration(of), errUndoTime)
		defer cancel()
		ctx = share
	}
	key := effectKey(c.ID, r.name, r.n)
	bound := func(ctx context.Context, f func() error) error {
		if u.t.undosHanging.Load() >= maxHanging {
			return errUndos
		}
		return u.t.within(ctx, &u.t.undosHanging, func() string { return fmt.Sprintf("Undo of effect %q", r.name) }, f)
	}
	if !redoes(c, e.Declaration()) {
		return e.Undo(ctx, key, r, bound)
	}
	err := e.Redo(ctx, key, r, bound)
	switch {
	case err == nil:
		return &FinalError{errors.New("it has no Undo and was performed again, to find out")}
	case errors.Is(err, ErrNothingToUndo):
		r.status = effectRefusedAgain
	}
	return err
}

var errUndoTime = errors.New("the time for undoing it is over")

// again is where what could not be undone, listed in the order in which that was tried, can be undone
// later; nil if that is nothing.
func (t *Program) again(id [16]byte, failed *effectLog) *Position {
	if len(failed.records) == 0 {
		return nil
	}
	slices.Reverse(failed.records)
	return t.toCancel(id, failed)
}
