package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// ends ends the saga as its turn has. again says that it was cancelled before and can be undone, as is done next.
func (h *hold) ends(end *turns.End) (again bool, err error) {
	h.revocable = !h.doubts()
	err = h.finish(end, completed)
	r, _, _ := h.look()
	h.revocable = false
	return err == nil && !r.Status.Over(), err
}

// revoked reports whether a good end comes too late for a saga that was cancelled: the row has all that is to be undone.
func (h *hold) revoked(r *row) bool {
	if !h.revocable || !r.Cancelled || r.Final || r.Undoing != nil {
		return false
	}
	pos, err := decodePosition(r.Stand.Position, r.Saga)
	return err == nil && (pos == nil || !h.program.IsFinal(pos))
}

func (h *hold) finish(end *turns.End, how ending) error {
	raw, err := turns.EncodeResponse(end, nil)
	if err != nil {
		return h.fail(err, nil)
	}
	text, bad := "Completed.", end.Result != nil && end.Result.IsError
	switch {
	case how == completed && !bad:
	case end.Result != nil:
		text = cmp.Or(end.Result.Content.Text(), "The tool has failed.")
	default:
		text = "The tool has failed."
	}
	if err = h.close(raw, how, turns.UndoReport(end.Result), text, bad); errors.Is(err, store.ErrTooLarge) {
		why := errTooLarge
		if how == completed && !bad { // no way leads back any more
			why = errUnread
		}
		return h.fail(why, turns.UndoReport(end.Result))
	}
	return err
}

func (h *hold) fail(why error, report *engine.UndoReport) error {
	r, _, _ := h.look()
	f := failureOf(h.program.Kind, why, r.Saga.String())
	if f.Late { // the end stays: the same request does not take it up again
		f.Text = lateText + became(report)
	}
	if f.Lacks != nil && became(report) != "" {
		f.Undone = report
	}
	raw, err := cbor.Marshal(f)
	if err != nil {
		return err
	}
	return h.close(raw, failed, report, f.err().Error(), false)
}

// close records how the saga has ended, and what is still to be undone. What it needed to go on is dropped.
func (h *hold) close(end []byte, how ending, report *engine.UndoReport, text string, bad bool) error {
	return h.commit(func(r *row) []event {
		if !bad && how == completed && h.revoked(r) {
			return nil
		}
		r.Shown.Ending, r.Shown.Bad, r.Shown.Message, r.End = how, bad, clip(text), end
		if r.Times.Keep = later(r.Times.Keep, r.now().Add(r.Times.Retain)); r.Times.TTL > 0 {
			r.Times.Keep = later(r.Times.Keep, r.Created.Add(r.Times.TTL))
		}
		h.doubt = false
		return h.c.over(r, body{Ending: how, Bad: bad, Text: r.Shown.Message}, report, nil)
	})
}

// over notes within a change that the saga has ended, as e says. What it needed to go on is dropped. What the report
// says is outstanding, which has failed with err, is tried again.
func (c *Core) over(r *row, e body, report *engine.UndoReport, err error) []event {
	r.Stand = stand{Given: r.Stand.Given, Asked: r.Stand.Asked}
	r.Begun.Arguments, r.Undoing, r.Running, r.Again = nil, nil, running{}, encodeAgain(report)
	r.Status, r.Wake = store.Ended, time.Time{}
	r.Final = r.Final || report != nil && report.Final != ""
	events := []event{{kind: kindEnd, body: e}}
	if report != nil && len(report.Stays) > 0 {
		events = append(events, event{kind: kindUndone, body: body{Effects: counted(report.Stays), Text: textStays}})
	}
	if len(r.Again) > 0 {
		events[0].Effects = report.Outstanding
		r.Status, r.Wake = store.Outstanding, c.notUndoneYet(r, cmp.Or(err, report.Err()))
		events = append(events, event{kind: kindUndone, body: body{Effects: report.Outstanding, Text: r.Running.LastError}})
	}
	return events
}

// Texts of [kindUndone] by which operators learn how a saga has ended.
const (
	textStays  = "it has no Undo"
	textClosed = "closed by an operator"
)

// lateText is why a saga has failed whose turn took too long.
const lateText = "The tool took too long."

// Texts of failures.
var (
	errExpired  = &tasks.FailedError{Text: "The call took longer than its time to live."}
	errAttempts = &tasks.FailedError{Text: "The call was given up: each server that tried to go on with it failed."}
	errTooLarge = &tasks.FailedError{Text: "The result is too large to be kept."}
	errUnread   = &tasks.FailedError{Text: "The tool has ended well, and what it did stays, but its result is too large to be kept."}
	errState    = &tasks.FailedError{Text: "The call has more to remember than can be kept."}
	errPartial  = &tasks.FailedError{Text: "The call has given more partial results than can be kept."}
	errPauses   = &tasks.FailedError{Text: "The tool paused too often without asking anything."}
)

// Why a saga cannot go on, in the words of those whose clients drive them.
var (
	errChanged  = &goneError{tokens.ReasonState}
	errRevision = &goneError{tokens.ReasonRevision}
)

// became says what has become of what a saga did, beginning with a space; empty if it did nothing.
func became(report *engine.UndoReport) string {
	switch {
	case report == nil || report.Final == "" && len(report.Undone)+len(report.Outstanding) == 0:
		return ""
	case report.Final != "" && len(report.Outstanding) > 0:
		return fmt.Sprintf(" Not all that it did after %q, which is final, could be undone yet: the server tries again.", report.Final)
	case report.Final != "" && len(report.Undone) == 0:
		return fmt.Sprintf(" Nothing was undone, as %q is final.", report.Final)
	case report.Final != "":
		return fmt.Sprintf(" What it did was undone up to %q, which is final.", report.Final)
	case len(report.Outstanding) > 0 && len(report.Undone) > 0:
		return " What it did was undone, but not all of it could be yet: the server tries again."
	case len(report.Outstanding) > 0:
		return " What it did could not be undone yet: the server tries again."
	}
	return " What it did was undone."
}

// recordedFailure is why a saga has failed, as it is recorded.
type recordedFailure struct {
	// Text is for the client; without any the reason is for the operator alone, who finds it in the log
	// under the saga.
	Text string `cbor:"1,keyasint,omitempty"`
	Saga string `cbor:"2,keyasint,omitempty"`
	// Lacks is what the client cannot do that the tool needs.
	Lacks *lacks `cbor:"3,keyasint,omitempty"`
	// Late: a turn took too long. Ended is how a prompt or a resource has failed; Refused what a hook
	// has refused a turn with.
	Late    bool               `cbor:"4,keyasint,omitempty"`
	Ended   []byte             `cbor:"5,keyasint,omitempty"`
	Refused *steps.ClientError `cbor:"6,keyasint,omitempty"`
	// Undone is what was undone where the client lacks something.
	Undone *engine.UndoReport `cbor:"7,keyasint,omitempty"`
}

type lacks struct {
	Tool   string `cbor:"1,keyasint"`
	StepID string `cbor:"2,keyasint"`
	Needs  uint64 `cbor:"3,keyasint"`
}

func failureOf(kind engine.Kind, err error, saga string) recordedFailure {
	f := recordedFailure{Saga: saga}
	var unsupported *engine.UnsupportedError
	var failed *tasks.FailedError
	var refused *turns.RefusedError
	switch {
	case errors.As(err, &failed):
		f.Text = failed.Text
	case errors.As(err, new(*goneError)): // of a prompt or a resource, which have no result that says so
		f.Text = err.Error()
	case errors.As(err, &refused):
		f.Refused = &steps.ClientError{Code: refused.Code, Message: refused.Message, Data: refused.Data}
	case errors.As(err, &unsupported):
		f.Lacks = &lacks{unsupported.Tool, unsupported.StepID, engine.PackFeatures(unsupported.Needs)}
	case kind != engine.KindTool && turns.EndsWith(kind, err):
		f.Ended, _ = turns.EncodeResponse(new(turns.End), err) // which has nothing that cannot be encoded
	case !errors.As(err, new(*engine.PanicError)) && errors.Is(err, context.DeadlineExceeded):
		f.Late = true
	}
	return f
}

func (f *recordedFailure) err() error {
	switch {
	case f.Refused != nil:
		return &turns.Error{Err: &turns.RefusedError{Code: f.Refused.Code, Message: f.Refused.Message, Data: f.Refused.Data}}
	case f.Lacks != nil:
		lacking := &engine.UnsupportedError{Tool: f.Lacks.Tool, StepID: f.Lacks.StepID, Needs: engine.UnpackFeatures(f.Lacks.Needs)}
		if f.Undone != nil {
			return &turns.Error{Err: &engine.UndoneError{Err: lacking, Report: f.Undone}}
		}
		return &turns.Error{Err: lacking}
	case f.Ended != nil:
		_, failure, err := turns.DecodeResponse(f.Ended)
		return &turns.Error{Err: cmp.Or(err, failure, errors.New("the reason of a failure is not in its record"))}
	case f.Late:
		return &turns.Error{Err: &tasks.FailedError{Text: cmp.Or(f.Text, lateText)}}
	case f.Text != "":
		return &turns.Error{Err: &tasks.FailedError{Text: f.Text}}
	}
	return &turns.Error{Err: fmt.Errorf("the tool failed; its operator can find the reason in the log under the saga %s", f.Saga)}
}
