package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/fields"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// Before the first thing is undone that cannot be taken back, a mark in the record says so: from
// there on the task only ends, whoever takes it, and whatever clients have done meanwhile.

// mark says that a task is being undone.
type mark struct {
	// why is the reason; nil if it is that a turn has ended badly, whose end is response.
	why      error
	response []byte
	// position knows of all that is to be undone. It is empty if the record's own does.
	position []byte
	// behind: something may be undone that was done before what could not be undone; see
	// [engine.Undoing].
	behind bool
}

// Reasons as they are recorded.
const (
	whyTurn = iota
	whyCancelled
	whyOver
	whyFailed
)

func (m *mark) fields(code *uint64, text *string) fields.List {
	return fields.List{1: code, text, &m.response, &m.position, 6: &m.behind}
}

func (m *mark) encode() []byte {
	code, text := uint64(whyFailed), ""
	switch m.why {
	case nil:
		code = whyTurn
	case errCancelled:
		code = whyCancelled
	case errOver:
		code = whyOver
	}
	if failed := (*FailedError)(nil); errors.As(m.why, &failed) {
		text = failed.Text
	}
	b := m.fields(&code, &text).Append(nil, 5)
	// A field that nobody reads: so the mark is never empty, and no longer when behind is found out
	// than before, as it must fit into the record then too.
	if m.behind {
		return append(b, 5, 0)
	}
	return append(b, 5, 3, 0, 0, 0)
}

// on returns the mark as it is to be written where there is one already, of which b is the encoding,
// or empty: that stays as it is, but for behind.
func (m *mark) on(b []byte) []byte {
	if old, err := decodeMark(b); len(b) > 0 && err == nil {
		old.behind = m.behind
		return old.encode()
	}
	return m.encode()
}

func decodeMark(b []byte) (m mark, err error) {
	var code uint64
	var text string
	_, err = m.fields(&code, &text).Read(b)
	switch {
	case err != nil:
		return m, fmt.Errorf("%w: what is being undone does not decode: %w", records.ErrUnreadable, err)
	case code == whyTurn:
	case code == whyCancelled:
		m.why = errCancelled
	case code == whyOver:
		m.why = errOver
	case text != "":
		m.why = &FailedError{text}
	default:
		m.why = errUndone
	}
	return m, nil
}

// errUndone is why a task has failed whose reason only the log of another server has.
var errUndone = errors.New("another server has begun to undo the task")

// undoing returns what is called before anything is undone, for the reason why; nil is how the
// turn has ended. It fails if the task is somebody else's, with whom it may go on: the store is
// asked, as a clock may have stood still.
func (r *run) undoing(why error) func(context.Context, engine.Undoing) error {
	return func(_ context.Context, u engine.Undoing) error {
		m := mark{why: why, position: encodePosition(u.Position, true), behind: u.Behind}
		switch {
		case why != nil:
		case u.Outcome != nil || u.Err != nil:
			raw, err := turns.EncodeUndoing(u)
			if err != nil {
				return err
			}
			m.response = raw
		default: // it was cut off, or broke
			if cut := r.whyCut(); cut == errCancelled || cut == errOver {
				m.why = cut
			}
		}
		known := false
		put := func(t *records.Task) []Event {
			known = len(t.Undo) > 0 && !m.behind || r.undone // by the mark, or by the checkpoint before it
			if !known {
				t.Undo = m.on(t.Undo)
			}
			return nil
		}
		if r.undone && !r.isLost() {
			return nil // it was written down just now
		}
		err := r.write(put)
		if errors.Is(err, ledger.ErrTooLarge) && !known {
			m.response, m.position = nil, nil
			if m.why == nil {
				m.why = errUndone
			}
			err = r.write(put)
		}
		return err
	}
}

func (r *run) isLost() bool {
	r.lock()
	defer r.unlock()
	return r.lost || r.m.passed(r.until)
}

// goOnUndoing ends a task that somebody has begun to undo.
func (r *run) goOnUndoing(t *records.Task) (again bool, err error) {
	m, err := decodeMark(t.Undo)
	if err != nil {
		return false, r.failed(t, err)
	}
	turn, err := turnOf(t, r.program, r.m.now())
	if err == nil && len(m.position) > 0 {
		turn.Position, err = decodePosition(m.position, t.Saga)
	}
	if err != nil {
		return false, r.failed(t, err)
	}
	why := m.why
	if why == nil && m.response == nil {
		why = errUndone
	}
	turn.Answers, turn.Acting, turn.Undoing = nil, r.acting, r.undoing(why)
	end, err := r.m.Turns.GoOnUndoing(r.ctx, turn, m.response, "")
	switch {
	case err != nil:
		return r.notUndone(t, err)
	case why == nil:
		return false, r.finish(&end, Completed)
	}
	if report := turns.UndoReport(end.Result); m.behind && report.TooLate() {
		end.Outcome = *engine.Cancelled(nil, fmt.Sprintf("Cancelled, though %q is final. What was done before it may have been undone.", report.Final))
	}
	return r.wasUndone(&end, why)
}

// notUndone leaves a task for later whose undo did not come to an end.
func (r *run) notUndone(t *records.Task, err error) (again bool, _ error) {
	r.lock()
	gone, handing := r.lost, r.handing
	r.unlock()
	switch {
	case gone:
		return false, errLost
	case handing:
		return false, r.handOver(false)
	}
	return false, r.failed(t, err)
}

// wasUndone ends a task that was undone for the reason why, or goes on with it, if it is too late
// to cancel it.
func (r *run) wasUndone(end *turns.End, why error) (again bool, err error) {
	report := turns.UndoReport(end.Result)
	switch {
	case report == nil: // its turn had ended well
		return false, r.finish(end, Completed)
	case why == errCancelled && report.TooLate():
		return true, r.goOnAnyway(false)
	case why == errCancelled:
		return false, r.finish(end, Cancelled)
	case why == errOver:
		return false, r.fail(expired(report), report)
	}
	return false, r.fail(why, report)
}

// expired says how a task has ended that took too long.
func expired(report *engine.UndoReport) *FailedError {
	text := errExpired.Text
	switch {
	case report == nil || report.Final == "" && len(report.Undone)+len(report.Outstanding) == 0:
	case report.Final != "" && len(report.Outstanding) > 0:
		text += fmt.Sprintf(" Not all that it did after %q, which is final, could be undone yet: the server tries again.", report.Final)
	case report.Final != "" && len(report.Undone) == 0:
		text += fmt.Sprintf(" Nothing was undone, as %q is final.", report.Final)
	case report.Final != "":
		text += fmt.Sprintf(" What it did was undone up to %q, which is final.", report.Final)
	case len(report.Outstanding) > 0 && len(report.Undone) > 0:
		text += " What it did was undone, but not all of it could be yet: the server tries again."
	case len(report.Outstanding) > 0:
		text += " What it did could not be undone yet: the server tries again."
	default:
		text += " What it did was undone."
	}
	return &FailedError{text}
}
