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

// undecided returns an irreversible effect of which only performing it again tells whether it was
// performed, and so whether anything may be undone; nil if there is none.
func (t *Program) undecided(log *effectLog) *EffectRecord {
	if t.final(log) != "" {
		return nil
	}
	for _, r := range t.toUndo(log) {
		if t.irreversible(r) && !t.effects[r.name].Declaration().Undoable {
			return r
		}
	}
	return nil
}

// compensate undoes the effects in the log. One that fails does not keep the
// others from being undone, except those that it builds on, and all if it is final.
// It returns nil if there is nothing to do, an *UnsettledError if it is not known whether anything may
// be undone, and a *HaltedError if f does not let it.
func (t *Program) compensate(ctx context.Context, id [16]byte, log *effectLog, f fence) (*UndoReport, error) {
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
	for i, r := range order {
		if by := t.neededBy(r.name, again.records); by != "" {
			report.Kept = append(report.Kept, r.name)
			report.fail(r.name, fmt.Errorf("not tried, as %q builds on it and is not undone", by))
			again.records = append(again.records, r)
			continue
		}
		err := errors.New("the tool no longer declares it")
		if e := t.effects[r.name]; e != nil {
			if halted := t.passes(ctx, &f, id, log, r, len(again.records) > 0 && len(report.Undone) == 0); halted != nil {
				return nil, halted
			}
			share, cancel := ctx, context.CancelFunc(func() {})
			if bounded {
				share, cancel = context.WithTimeoutCause(ctx, time.Until(until)/time.Duration(len(order)-i), errUndoTime)
			}
			err = e.Undo(share, effectKey(id, r.name, r.n), r, t.boundUndo(r.name))
			cancel()
		}
		switch {
		case err == nil:
			report.Undone = append(report.Undone, r.name)
		case errors.Is(err, ErrNothingToUndo):
		case errors.As(err, new(*FinalError)):
			report.Final = r.name
			report.errs = append(report.errs, fmt.Errorf("undo of %q: %w", r.name, err))
			report.Again = t.again(id, again) // what came after it and could not be undone yet
			return report, nil
		case t.irreversible(r):
			return nil, &UnsettledError{t.Name, r.name, err}
		default:
			report.fail(r.name, err)
			report.doubtful = report.doubtful || r.status == effectDone
			again.records = append(again.records, r)
		}
	}
	report.Again = t.again(id, again)
	return report, nil
}

// boundUndo bounds the tries of an effect's Undo.
func (t *Program) boundUndo(effect string) Bound {
	return func(ctx context.Context, f func() error) error {
		if t.undosHanging.Load() >= maxHanging {
			return errUndos
		}
		_, err := callWithin(ctx, t, &t.undosHanging, func() string { return fmt.Sprintf("Undo of effect %q", effect) }, func() (struct{}, error) { return struct{}{}, f() })
		return err
	}
}

// again is where what could not be undone, listed in the order in which that was tried, can be undone
// later; nil if that is nothing.
func (t *Program) again(id [16]byte, failed *effectLog) *Position {
	if len(failed.records) == 0 {
		return nil
	}
	slices.Reverse(failed.records)
	// There is no step function of that name, so it can only be cancelled.
	return &Position{ID: id, Tool: t.Name, Revision: t.Revision, body: body{log: failed}}
}

var errUndoTime = errors.New("the time for undoing it is over")

// undoTurn undoes the effects of a turn that has ended badly, as u says, and of those before it.
func (t *Program) undoTurn(tc *Turn, u Undoing) (*UndoReport, error) {
	if tc.halted != nil {
		return nil, tc.halted
	}
	if len(tc.log.records) > 0 {
		// From what is written down there the turn is not taken again, which alone could tell.
		if r := t.undecided(tc.log); r != nil && tc.saves != nil {
			return nil, &UnsettledError{t.Name, r.name, r.Failure()}
		}
		if err := tc.saveUndo(u.Outcome); err != nil {
			return nil, err
		}
	}
	ctx := context.Context(tc)
	if tc.outer != nil {
		ctx = tc.outer
	}
	report, err := t.compensate(ctx, tc.ID, tc.log, fence{acting: tc.acting, undoing: tc.undoing, end: u})
	if halted := (*HaltedError)(nil); errors.As(err, &halted) {
		return nil, tc.halt(halted)
	}
	return report, err
}

// fence is what is passed before anything is undone: the caller may have lost it to
// another one. Its functions are those of [Call], and may be nil.
type fence struct {
	acting  func(context.Context) error
	undoing func(context.Context, Undoing) error
	end     Undoing
	told    bool // undoing was called
}

func (f fence) act(ctx context.Context) error {
	if f.acting == nil {
		return nil
	}
	if err := f.acting(ctx); err != nil {
		return &HaltedError{err}
	}
	return nil
}

// passes is called before r is undone. As long as only irreversible effects are found out about,
// the saga may still have to go forward; with the first other one it is decided that it does not. That
// one may turn out to be final, as may those after it as long as nothing is undone: behind says that
// one could not be undone before r, and nothing was.
func (t *Program) passes(ctx context.Context, f *fence, id [16]byte, log *effectLog, r *EffectRecord, behind bool) error {
	switch {
	case !t.effects[r.name].Declaration().Undoable:
		return nil
	case t.irreversible(r):
		return f.act(ctx)
	case f.undoing == nil, f.told && (f.end.Behind || !behind):
		return nil
	}
	f.told, f.end.Behind = true, behind
	f.end.Position = &Position{ID: id, Tool: t.Name, Revision: t.Revision, body: body{log: log}}
	if err := f.undoing(ctx, f.end); err != nil {
		return &HaltedError{err}
	}
	return nil
}

// unsettled is the end of a turn of which it is not known whether it may be
// undone. If it cannot be taken again, the report says that nothing was undone.
func (t *Program) unsettled(tc *Turn, err error) error {
	if !tc.held {
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

func (u *UndoReport) err() error {
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
		b.WriteString(" Cancel the saga again to try once more.")
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
	o.Result, o.Err = &r, errors.Join(o.Err, u.err())
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
