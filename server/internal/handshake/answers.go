package handshake

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A client's answer is an input to the row of its call, on whatever replica it arrives.

// answerTask gives the client's answer to the task that has asked, whichever replica that was.
func (d *handshake) answerTask(ctx context.Context, x *dialect.Exchange, s *session, id uint64, a steps.Answer) error {
	number, n, ok := splitQuestionID(id)
	if !ok {
		return errNobodyWaits
	}
	found, err := d.findReading(ctx, s.agreed, x.Principal, number)
	if err != nil {
		return err
	}
	if found == nil {
		return errNoQuestion
	}
	is := func(number uint64) bool { return questionID(0, number) == questionID(0, n) }
	for _, g := range found.task.Given {
		if is(g.Number) && g.Sum == tasks.Sum(a) {
			return nil // it was sent twice
		}
	}
	for i, step := range found.task.Questions {
		nth := found.task.Numbers[i]
		if !is(nth) {
			continue
		}
		s.notes(number, id)
		a.StepID = step.ID
		if step.Kind == steps.Elicitation && step.Needs.Has(steps.Features{Links: true}) && jsonview.Is(jsonview.Get(a.Result, "action"), "accept") {
			page := linkID(found.task.ID, step.ID)
			found.task, err = d.Tasks.Renew(ctx, x.Principal, found.task.ID, callWait, changeNote(func(n *taskNote) { n.Accepted = append(n.Accepted, page) }))
			if err != nil {
				return err
			}
		}
		return d.giveAnswer(context.WithoutCancel(ctx), x.Principal, found.task.ID, found.task, a, nth)
	}
	return errNoQuestion
}

// notes takes down that the client has answered a question here.
func (s *session) notes(number, id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.number == number {
			c.answered = append(c.answered, id)
		}
	}
}

// giveAnswer gives a task the answer to its nth question; found is the task as it was found just
// now, or nil. An answer that is not of MCP's form is a fault in the client that asking again would
// not mend: it counts as the client's failure to answer. It fails with [errNoQuestion] if another
// answer was faster, or the task has gone on without any.
func (d *handshake) giveAnswer(ctx context.Context, principal, task string, found *tasks.Task, a steps.Answer, n uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, outage, durable.ErrSlow)
	defer cancel()
	for {
		var t *tasks.Task
		var err error
		if answers := []steps.Answer{a}; found == nil {
			t, err = d.Tasks.Answer(ctx, principal, task, answers)
		} else if t, err = d.Tasks.AnswerFound(ctx, principal, found, answers); err == nil && t == nil {
			return nil
		}
		found = nil
		var wrong *engine.AnswerError
		switch {
		case errors.As(err, &wrong) && a.Error == nil:
			d.Log.InfoContext(ctx, "answer not usable", "step", a.StepID, "reason", wrong.Reason)
			a.Result, a.Error = nil, &steps.ClientError{Code: wire.CodeInvalidParams, Message: "the answer is malformed: " + wrong.Reason}
		case err != nil, slices.Contains(t.Given, tasks.Given{Number: n, Sum: tasks.Sum(a)}):
			return err
		case !slices.Contains(t.Numbers, n):
			return errNoQuestion
		default: // a worker looks at the task just now, and will soon have done so
			select {
			case <-time.After(outagePause):
			case <-ctx.Done():
				return turns.ErrLedger
			}
		}
	}
}

// giveTaken is giveAnswer for an answer that the client does not send again if it fails: it is tried
// for as long as a call waits for the ledger.
func (d *handshake) giveTaken(ctx context.Context, principal, task string, a steps.Answer, n uint64) error {
	for began := time.Now(); ; time.Sleep(outagePause) {
		err := d.giveAnswer(ctx, principal, task, nil, a, n)
		if !errors.Is(err, turns.ErrLedger) || time.Since(began) > outage {
			return err
		}
	}
}
