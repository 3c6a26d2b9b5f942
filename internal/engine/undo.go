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
	// before it is then as it was: Left, if anything was undone before that was found.
	Final string   `json:"final,omitzero"`
	Left  []string `json:"left,omitzero"`
	// Stays have no Undo, and may have changed something. Only operators are to know.
	Stays []string `json:"-"`
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

// InPart has the report say that something may have been undone of which it does not know, as by an earlier try: a
// saga of which that is so cannot continue.
func (u *UndoReport) InPart() *UndoReport {
	u.doubtful = true
	return u
}

// final names the irreversible effect that is done, or returns "".
func (t *Program) final(log *effectLog) string {
	for _, r := range log.records {
		if r.status == effectDone && t.declared(r).Irreversible {
			return r.name
		}
	}
	return ""
}

// declared is what the program declares of a recorded effect; nothing if it no longer has it.
func (t *Program) declared(r *EffectRecord) (d Declaration) {
	if e := t.effects[r.name]; e != nil {
		d = e.Declaration()
	}
	return d
}

// toUndo lists the effects in the order in which to undo them: the last first,
// but before all others irreversible ones whose outcome is unknown, as these
// decide whether anything may be undone.
func (t *Program) toUndo(log *effectLog) []*EffectRecord {
	var order, rest []*EffectRecord
	for _, r := range slices.Backward(log.records) {
		switch d := t.declared(r); {
		case r.status == effectRefused:
		case r.status == effectRefusedAgain && d.Irreversible && !d.Undoable: // so that is all there is to know
		case d.Irreversible:
			order = append(order, r)
		default:
			rest = append(rest, r)
		}
	}
	return append(order, rest...)
}

// toCancel is a position that can only be cancelled: it has no step function.
func (t *Program) toCancel(id [16]byte, log *effectLog) *Position {
	return &Position{ID: id, Tool: t.Name, Revision: t.Revision, body: body{log: *log}}
}

// Begun is a position that can only be cancelled, and knows of the effects of p and of earlier, which is where an earlier
// run of the same turn has ended, or nil.
func (p *Position) Begun(earlier *Position) *Position {
	log := effectLog{records: slices.Clone(p.log.records)}
	if earlier != nil {
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

// undoTurn undoes the effects of a turn that has ended badly, or broken off without an end, and of those before it.
func (t *Program) undoTurn(tc *Turn, end *Outcome) (*UndoReport, error) {
	if tc.halted != nil {
		return nil, tc.halted
	}
	ctx := context.Context(tc)
	if tc.limit != nil {
		ctx = tc.limit.Context // undoing has time of its own
	}
	report, err := t.compensate(ctx, &tc.Call, tc.log, end)
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
	case u.TooLate():
		fmt.Fprintf(&b, "\nNothing was undone: %q is done and final.", u.Final)
	case u.Final != "" && len(u.Undone) > 0:
		fmt.Fprintf(&b, "\nUndone up to %q, which is final.", u.Final)
	case u.Final != "":
		fmt.Fprintf(&b, "\n%q is done and final. Something else may have been undone.", u.Final)
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
	if len(u.Left) > 0 {
		fmt.Fprintf(&b, "\nLeft as it was: %s.", strings.Join(u.Left, ", "))
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
func (t *Program) neededBy(needed *EffectRecord, outstanding []*EffectRecord) string {
	for _, r := range outstanding {
		if t.declared(needed).Undoable && slices.Contains(t.buildsOn[r.name], needed.name) {
			return r.name
		}
	}
	return ""
}
