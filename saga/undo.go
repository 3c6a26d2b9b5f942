package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// UndoMetaKey is the key in a result's _meta that holds an [UndoReport].
const UndoMetaKey = "io.github.mcpsaga/undo"

// UndoReport says what became of a saga's effects when it ended badly. The
// effects are named, in the order in which they were undone.
type UndoReport struct {
	// Undone were reversed, or found not to have happened.
	Undone []string `json:"undone"`
	// Outstanding could not be reversed; the operator's log says why.
	Outstanding []string `json:"outstanding"`
	// Final is the irreversible effect after which nothing is undone, or empty.
	// What came before it is then as it was.
	Final string `json:"final,omitzero"`

	errs []error
}

// compensate undoes the effects in the log, the last first. One that fails does
// not keep the others from being undone. It returns nil if there is nothing.
func (t *Tool) compensate(ctx context.Context, id ID, log *effectLog) *UndoReport {
	if log == nil || len(log.records) == 0 {
		return nil
	}
	// A turn that was cut off must not leave its undo half done.
	ctx = context.WithoutCancel(ctx)
	report := &UndoReport{Undone: []string{}, Outstanding: []string{}}
	for _, r := range log.records {
		if e := t.effects[r.name]; e != nil && r.status == effectDone {
			if _, irreversible, _ := e.declaration(); irreversible {
				report.Final = r.name
				return report
			}
		}
	}
	for _, r := range slices.Backward(log.records) {
		if r.status == effectRefused {
			continue
		}
		e := t.effects[r.name]
		if e == nil {
			report.fail(r.name, errors.New("the tool no longer declares it"))
			continue
		}
		if err := e.undo(ctx, effectKey(id, r.name, r.n), r); err != nil {
			report.fail(r.name, err)
			continue
		}
		report.Undone = append(report.Undone, r.name)
	}
	return report
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
	if u.Final != "" {
		fmt.Fprintf(&b, "\nNothing was undone: %q is done and final.", u.Final)
	}
	if len(u.Undone) > 0 {
		fmt.Fprintf(&b, "\nUndone: %s.", strings.Join(u.Undone, ", "))
	}
	if len(u.Outstanding) > 0 {
		fmt.Fprintf(&b, "\nNot undone: %s. Cancel the saga again to try once more.", strings.Join(u.Outstanding, ", "))
	}
	return b.String()
}

// addUndo puts the report into a failed tool's result.
func (o *Outcome) addUndo(u *UndoReport) {
	if u == nil {
		return
	}
	r := *o.Result
	r.Content = append(slices.Clip(r.Content), TextResult("%s", strings.TrimPrefix(u.appendTo(""), "\n")).Content...)
	meta := make(map[string]any, len(r.Meta)+1)
	for k, v := range r.Meta {
		meta[k] = v
	}
	meta[UndoMetaKey] = u
	r.Meta = meta
	o.Result, o.Err = &r, errors.Join(o.Err, u.err())
}
