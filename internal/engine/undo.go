package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
)

// UndoMetaKey is the key in a result's _meta that holds an [UndoReport].
const UndoMetaKey = "io.github.mcpsaga/undo"

// UndoTime is how long undoing may take after the turn that it belongs to has ended,
// by its deadline or because it was stopped. The effects share what time there is, so that
// one that hangs leaves some to the others. What could not be undone in time is outstanding.
const UndoTime = time.Minute

// UndoReport says what became of a saga's effects when it ended badly. The
// effects are named, in the order in which they were undone; those without an
// Undo are left out.
type UndoReport struct {
	// Undone were reversed, or found not to have happened.
	Undone []string `json:"undone"`
	// Outstanding could not be reversed; the operator's log says why.
	Outstanding []string `json:"outstanding"`
	// Kept are those of Outstanding that were not tried, as others of them build on
	// them (saga.Effect's BuildsOn).
	Kept []string `json:"kept,omitzero"`
	// Final is the effect that cannot be reversed any more, or empty. What came
	// before it is then as it was.
	Final string `json:"final,omitzero"`
	// SagaToken is Again as a token, set by package server.
	SagaToken string `json:"sagaToken,omitzero"`
	// Again is where the outstanding effects can be undone, with [Program.Cancel];
	// nil if there are none. To run the failed turn again would not find them, as
	// effects that were undone are now refused.
	Again *Position `json:"-"`

	errs     []error
	doubtful bool // something that was done may have been undone, though its Undo has failed
}

// TooLate reports whether a saga cannot be cancelled, and continues: it did something that is final, and
// nothing that it takes for done was undone, or may have been by an Undo that has failed. Where it
// does not know whether something was done, it performs that again, and hears that it was undone.
func (u *UndoReport) TooLate() bool {
	return u != nil && u.Final != "" && len(u.Undone) == 0 && !u.doubtful
}

// final names the irreversible effect that is done, or returns "".
func (t *Program) final(log *effectLog) string {
	for _, r := range log.records {
		if r.status == effectDone && t.irreversible(r) {
			return r.name
		}
	}
	return ""
}

func (t *Program) irreversible(r *EffectRecord) bool {
	e := t.effects[r.name]
	return e != nil && e.Declaration().Irreversible
}

// toUndo lists the effects in the order in which to undo them: the last first,
// but before all others irreversible ones whose outcome is unknown, as these
// decide whether anything may be undone.
func (t *Program) toUndo(log *effectLog) []*EffectRecord {
	var order, rest []*EffectRecord
	for _, r := range slices.Backward(log.records) {
		switch {
		case r.status == effectRefused:
		case r.status == effectRefusedAgain && t.irreversible(r) && !t.effects[r.name].Declaration().Undoable: // so that is all there is to know
		case t.irreversible(r):
			order = append(order, r)
		default:
			rest = append(rest, r)
		}
	}
	return append(order, rest...)
}

// compensate undoes the effects in the log. One that fails does not keep the
// others from being undone, except those that it builds on, and all if it is final.
// It returns nil if there is nothing to do, an *UnsettledError if it is not known whether anything may
// be undone, and a *HaltedError if c does not let it. end is how the turn has ended.
func (t *Program) compensate(ctx context.Context, c *Call, log *effectLog, end Undoing) (*UndoReport, error) {
	if log == nil || len(log.records) == 0 {
		return nil, nil
	}
	// Without a deadline the effects' own Timeout and Tries are all that bounds the undo.
	until, bounded := ctx.Deadline()
	if ctx.Err() != nil {
		until, bounded = time.Now(), true
	}
	until = until.Add(UndoTime)
	ctx = context.WithoutCancel(ctx)
	report := &UndoReport{Undone: []string{}, Outstanding: []string{}}
	if report.Final = t.final(log); report.Final != "" {
		return report, nil
	}
	again := new(effectLog)
	order := t.toUndo(log)
	said := false // Undoing was called
	for i, r := range order {
		if by := t.neededBy(r.name, again.records); by != "" {
			report.Kept = append(report.Kept, r.name)
			report.fail(r.name, fmt.Errorf("not tried, as %q builds on it and is not undone", by))
			again.records = append(again.records, r)
			continue
		}
		err := errors.New("the tool no longer declares it")
		if e := t.effects[r.name]; e != nil {
			// As long as only irreversible effects are found out about, the saga may still have to go forward;
			// with the first other one it is decided that it does not. That one may turn out to be final, as may
			// those after it as long as nothing is undone.
			behind := len(again.records) > 0 && len(report.Undone) == 0
			d := e.Declaration()
			redo := c.Begun != nil && d.Irreversible && !d.Undoable // nothing else can tell what became of it
			switch {
			case !d.Undoable && !redo:
			case d.Irreversible:
				if err := c.act(ctx); err != nil {
					return nil, err
				}
			case c.Undoing != nil && (!said || behind && !end.Behind):
				said, end.Behind = true, behind
				end.Position = t.toCancel(c.ID, log)
				if err := c.Undoing(ctx, end); err != nil {
					return nil, &HaltedError{err}
				}
			}
			share, cancel := ctx, context.CancelFunc(func() {})
			if bounded {
				share, cancel = context.WithTimeoutCause(ctx, time.Until(until)/time.Duration(len(order)-i), errUndoTime)
			}
			if key, bound := effectKey(c.ID, r.name, r.n), t.boundUndo(r.name); redo {
				err = r.redone(e.Redo(share, key, r, bound))
			} else {
				err = e.Undo(share, key, r, bound)
			}
			cancel()
		}
		switch {
		case err == nil:
			report.Undone = append(report.Undone, r.name)
		case errors.Is(err, ErrNothingToUndo):
		case errors.As(err, new(*FinalError)):
			report.Final = r.name
			report.errs = append(report.errs, fmt.Errorf("undo of %q: %w", r.name, err))
			report.Again = t.again(c.ID, again) // what came after it and could not be undone yet
			return report, nil
		case t.irreversible(r):
			return nil, &UnsettledError{t.Name, r.name, err}
		default:
			report.fail(r.name, err)
			report.doubtful = report.doubtful || r.status == effectDone
			again.records = append(again.records, r)
		}
	}
	report.Again = t.again(c.ID, again)
	return report, nil
}

// redone says what has come of performing an effect again, in the way of the Undo that it does not have.
func (r *EffectRecord) redone(err error) error {
	switch {
	case err == nil:
		return &FinalError{errors.New("it has no Undo and was performed again, to find out")}
	case errors.Is(err, ErrNothingToUndo):
		r.status = effectRefusedAgain
	}
	return err
}

// boundUndo bounds the tries of an effect's Undo.
func (t *Program) boundUndo(effect string) Bound {
	return func(ctx context.Context, f func() error) error {
		if t.undosHanging.Load() >= maxHanging {
			return errUndos
		}
		c := call{t: t, hanging: &t.undosHanging, work: workFunc{fmt.Sprintf("Undo of effect %q", effect), f}}
		return c.within(ctx)
	}
}

// again is where what could not be undone, listed in the order in which that was tried, can be undone
// later; nil if that is nothing.
func (t *Program) again(id [16]byte, failed *effectLog) *Position {
	if len(failed.records) == 0 {
		return nil
	}
	slices.Reverse(failed.records)
	return t.toCancel(id, failed)
}

// toCancel is a position that can only be cancelled: it has no step function.
func (t *Program) toCancel(id [16]byte, log *effectLog) *Position {
	return &Position{ID: id, Tool: t.Name, Revision: t.Revision, body: body{log: log}}
}

// Begun is a position that can only be cancelled, and knows of the effects of p and of earlier, which is where an earlier
// run of the same turn has ended, or nil.
func (p *Position) Begun(earlier *Position) *Position {
	log := new(effectLog)
	if p.log != nil {
		log.records = slices.Clone(p.log.records)
	}
	if earlier != nil && earlier.log != nil {
		for _, r := range earlier.log.records {
			i := slices.IndexFunc(log.records, func(now *EffectRecord) bool { return now.name == r.name && now.n == r.n })
			if i < 0 {
				log.records = append(log.records, r)
			} else if r.status == effectDone {
				log.records[i] = r
			}
		}
	}
	return &Position{ID: p.ID, Tool: p.Tool, Revision: p.Revision, body: body{log: log}}
}

var errUndoTime = errors.New("the time for undoing it is over")

// undoTurn undoes the effects of a turn that has ended badly, as u says, and of those before it.
func (t *Program) undoTurn(tc *Turn, u Undoing) (*UndoReport, error) {
	if tc.halted != nil {
		return nil, tc.halted
	}
	ctx := context.Context(tc)
	if tc.limit != nil {
		ctx = tc.limit.Context // undoing has time of its own
	}
	report, err := t.compensate(ctx, &tc.Call, tc.log, u)
	if halted := (*HaltedError)(nil); errors.As(err, &halted) {
		return nil, tc.halt(halted)
	}
	foundOut := func(r *EffectRecord) bool { return r.Unknown() && r.name == report.Final } // that it was done after all
	if !tc.held() && report.TooLate() && slices.ContainsFunc(tc.log.records, foundOut) {
		return nil, &UnsettledError{t.Name, report.Final, report.Err()} // forward is the only way: the turn is to be taken again
	}
	return report, err
}

// unsettled is the end of a turn of which it is not known whether it may be
// undone. If it cannot be taken again, the report says that nothing was undone.
func (t *Program) unsettled(tc *Turn, err error) error {
	if !tc.held() {
		return err
	}
	report := &UndoReport{Undone: []string{}}
	for _, r := range t.toUndo(tc.log) {
		report.Outstanding = append(report.Outstanding, r.name)
	}
	return &UndoneError{err, report}
}

func (u *UndoReport) fail(name string, err error) {
	u.Outstanding = append(u.Outstanding, name)
	u.errs = append(u.errs, fmt.Errorf("undo of %q: %w", name, err))
}

// Err is why effects are outstanding; nil if the report comes from a record.
func (u *UndoReport) Err() error {
	if u == nil {
		return nil
	}
	return errors.Join(u.errs...)
}

// appendTo tells the caller what was undone and what was not.
func (u *UndoReport) appendTo(text string) string {
	if u == nil {
		return text
	}
	var b strings.Builder
	b.WriteString(text)
	switch {
	case u.Final != "" && len(u.Undone) > 0:
		fmt.Fprintf(&b, "\nUndone up to %q, which is final.", u.Final)
	case u.Final != "":
		fmt.Fprintf(&b, "\nNothing was undone: %q is done and final.", u.Final)
	}
	if len(u.Undone) > 0 {
		fmt.Fprintf(&b, "\nUndone: %s.", strings.Join(u.Undone, ", "))
	}
	if len(u.Outstanding) > 0 {
		fmt.Fprintf(&b, "\nNot undone: %s.", strings.Join(u.Outstanding, ", "))
		if len(u.Kept) > 0 {
			fmt.Fprintf(&b, " Kept until what builds on them is undone: %s.", strings.Join(u.Kept, ", "))
		}
		b.WriteString(" This can be tried again.")
	}
	return b.String()
}

// addUndo puts the report into a failed tool's result.
func (o *Outcome) addUndo(u *UndoReport) {
	if u == nil {
		return
	}
	r := *o.Result
	if text := strings.TrimPrefix(u.appendTo(""), "\n"); text != "" {
		r.Content = append(slices.Clip(r.Content), content.Resultf("%s", text).Content...)
	}
	if r.Meta = maps.Clone(r.Meta); r.Meta == nil {
		r.Meta = make(map[string]any, 1)
	}
	r.Meta[UndoMetaKey] = u
	o.Result, o.Err = &r, errors.Join(o.Err, u.Err())
}

// neededBy names an effect that is not undone and builds on the given one, or returns
// "". An effect without an Undo needs no keeping.
func (t *Program) neededBy(name string, outstanding []*EffectRecord) string {
	if e := t.effects[name]; e == nil || !e.Declaration().Undoable {
		return ""
	}
	for _, r := range outstanding {
		if slices.Contains(t.buildsOn[r.name], name) {
			return r.name
		}
	}
	return ""
}
