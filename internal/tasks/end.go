package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// finish records that the task has ended.
func (r *run) finish(end *turns.End, status Status) error {
	raw, err := turns.EncodeEnd(end)
	if err != nil {
		return r.fail(err, nil)
	}
	if err = r.close(raw, status, turns.UndoReport(end.Result), said(end, status), isBad(end)); errors.Is(err, ledger.ErrTooLarge) {
		return r.fail(errTooLarge, turns.UndoReport(end.Result))
	}
	return err
}

// fail records that the task has failed.
func (r *run) fail(why error, report *engine.UndoReport) error {
	f := failureOf(r.kind(), why, fmt.Sprintf("%x", r.task().Saga))
	raw := f.encode()
	return r.close(raw, Failed, report, decodeFailure(raw).Error(), false)
}

// said tells people how a task has ended, unless it has failed without a result.
func said(end *turns.End, status Status) string {
	text := ""
	if end.Result != nil {
		text = end.Result.Content.Text()
	}
	if status == Cancelled || isBad(end) {
		return cmp.Or(text, "The tool has failed.")
	}
	return "Completed."
}

// close records how the task has ended, which said tells people, and what is still to be undone.
func (r *run) close(end []byte, status Status, report *engine.UndoReport, said string, bad bool) error {
	return r.write(func(t *records.Task) []Event {
		now := r.m.now()
		t.State, t.Status, t.End = records.TaskEnded, uint8(status), end
		t.Said, t.Judged, t.Bad = clip(said), true, bad
		t.Position, t.Questions, t.Answers, t.Request, t.Undo = nil, nil, nil, nil, nil
		t.Rest, t.Again, t.Failures, t.LastError = time.Time{}, nil, 0, ""
		if t.Keep = later(t.Keep, now.Add(t.Retain)); t.TTL > 0 {
			t.Keep = later(t.Keep, t.Created.Add(t.TTL))
		}
		if report != nil && report.Again != nil {
			t.Again, t.Rest = encodePosition(report.Again, true), now.Add(firstUndo)
		}
		return nil
	})
}
