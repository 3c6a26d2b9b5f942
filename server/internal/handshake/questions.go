package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/inturn"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// How a reader asks its client what the task asks: on a stream over HTTP by a request whose answer comes to
// the task by itself, at any replica; elsewhere by a call that waits for the answer.

// asked is a question that the client is being asked.
type asked struct {
	number uint64 // of the question among all of the task
	// takeBack tells the client that the answer is not needed any more, and why.
	takeBack func(why error)
	late     time.Time // when the client has taken too long; zero is never
}

// errAnswered takes back a question that was answered elsewhere, or is not waited for any more.
var errAnswered = errors.New("the answer is not needed any more")

// ask asks the client what the task asks and the client was not asked yet, and takes back what needs no answer any more.
// failed gets what makes it impossible to continue: an *[engine.UnsupportedError] if the client cannot be asked.
func (r *reader) ask(ctx context.Context, failed func(error), t *tasks.Task) {
	for id, q := range r.asked {
		if !slices.ContainsFunc(t.Questions, func(s steps.Step) bool { return s.ID == id }) {
			q.takeBack(goneWith(t))
			delete(r.asked, id)
		}
	}
	r.waits.Store(t.Rests || r.wait == 0)
	r.calling.Store(!r.posts() && slices.ContainsFunc(t.Questions, func(s steps.Step) bool { return r.asked[s.ID] != nil }))
	if r.waitsInVain() && r.leaveIfMute() {
		failed(context.Cause(r.Closing))
		return
	}
	for i, step := range t.Questions {
		if r.asked[step.ID] != nil || r.elsewhere.AsksElsewhere(t, step.ID, r.Caller) {
			continue
		}
		if err := r.askFor(ctx, failed, t, step, t.Numbers[i]); err != nil {
			failed(err)
			return
		}
	}
}

// askFor asks the client for a step, the nth question of the task.
func (r *reader) askFor(ctx context.Context, failed func(error), t *tasks.Task, step steps.Step, n uint64) error {
	if r.Way == nil || !r.Turns.Features(r.features).Has(step.Needs) {
		lacking := &engine.UnsupportedError{StepID: step.ID, Needs: step.Needs}
		if t.Program != nil {
			lacking.Tool = t.Program.Name
		}
		return lacking
	}
	method, params, err := stepRequest(r.peer.revision, step, linkID(r.task, step.ID))
	if err != nil {
		return err
	}
	q := &asked{number: n}
	if r.late > 0 {
		q.late = time.Now().Add(r.late)
	}
	r.asked[step.ID] = q
	if r.posts() {
		q.takeBack = r.askOnStream(n, method, params)
	} else {
		r.calling.Store(true)
		q.takeBack = r.askAndWait(ctx, failed, step, n, method, params)
	}
	return nil
}

// askOnStream asks the nth question of the task on the stream. Its id is the same on each stream of
// the request, and any replica can give the task the answer, so nothing waits for it here.
func (r *reader) askOnStream(n uint64, method string, params json.RawMessage) (takeBack func(error)) {
	if of, ok := r.Way.(related); ok {
		params = dialect.RelatedTask(params, of.task)
	}
	id, back := r.post.ask(questionID(r.number, n), &question{call: r.post.call}, method, params)
	return func(why error) {
		// It is asked elsewhere, or only this client can have answered, or it has.
		if open := back(); errors.Is(why, dialect.ErrLeft) || why == errAnswered && (r.name != "" || !open) {
			return
		}
		r.post.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), why))
	}
}

// askAndWait asks the nth question of the task, and has a goroutine give that the answer.
func (r *reader) askAndWait(ctx context.Context, failed func(error), step steps.Step, n uint64, method string, params json.RawMessage) (takeBack func(error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	inturn.Go(ctx, r.asking.Go, func(ctx context.Context) {
		defer cancel(nil)
		a, err := r.Way.Call(ctx, method, params)
		if err != nil {
			if why := context.Cause(ctx); why != errAnswered && why != turns.ErrLate {
				failed(err)
			}
			return
		}
		err = r.giveTaken(ctx, step, a, n)
		if err != nil && err != errNoQuestion && context.Cause(ctx) != errAnswered { // another answer was faster
			failed(err)
		}
	})
	return cancel
}

// tooLate gives the task an error instead of an answer that has not come in time.
func (r *reader) tooLate(ctx context.Context, step string, q *asked) {
	q.takeBack(turns.ErrLate)
	q.takeBack, q.late = func(error) {}, time.Time{}
	late := steps.Answer{Error: &steps.ClientError{Code: dialect.CodeLate, Message: turns.ErrLate.Error()}}
	r.asking.Go(func() { // if that fails, others may answer
		_ = r.giveTaken(ctx, steps.Step{ID: step}, late, q.number)
	})
}

// giveTaken is giveAnswer for an answer that the client does not send again: it is tried for as long as a call waits for the
// ledger.
func (r *reader) giveTaken(ctx context.Context, step steps.Step, a steps.Answer, n uint64) error {
	for began := time.Now(); ; time.Sleep(outagePause) {
		err := r.giveAnswer(context.WithoutCancel(ctx), r.Principal, r.task, nil, step, a, n)
		if !r.outlasts(ctx, err, time.Since(began)) {
			return err
		}
	}
}

// goneWith is why a task's question needs no answer any more, as the task is now.
func goneWith(t *tasks.Task) error {
	if t.Cancelling || t.Status == tasks.Cancelled {
		return dialect.ErrCancelled
	}
	return errAnswered
}

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
	if found == nil || found.askedElsewhere() { // the client is not who is asked
		return errNoQuestion
	}
	asks := func(number uint64) bool { return questionID(0, number) == questionID(0, n) } // ids have only the lower bits
	if slices.ContainsFunc(found.task.Given, func(g tasks.Given) bool { return asks(g.Number) && g.Sum == tasks.Sum(a) }) {
		return nil // it was sent twice
	}
	i := slices.IndexFunc(found.task.Numbers, asks)
	if i < 0 {
		return errNoQuestion
	}
	s.mu.Lock()
	if q := s.waiting[id]; q != nil {
		q.answered = true
	}
	s.mu.Unlock()
	step := found.task.Questions[i]
	if a.StepID = step.ID; d.Turns.MayAnswer(found.task.Program, []steps.Answer{a}) != nil {
		return errNoQuestion
	}
	return d.giveAnswer(context.WithoutCancel(ctx), x.Principal, found.TaskID, found.task, step, a, found.task.Numbers[i])
}

// giveAnswer gives a task the answer to step, its nth question; found is the task as it was found just now, or nil. A malformed
// answer, which asking again would not mend, counts as the client's failure to answer. It fails with [errNoQuestion] if the task
// waits for it no more.
func (d *handshake) giveAnswer(ctx context.Context, principal, task string, found *tasks.Task, step steps.Step, a steps.Answer, n uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, outage, durable.ErrSlow)
	defer cancel()
	a.StepID = step.ID
	if opens(step, a) { // noted first: a reader that sees the answer finds the page in the note
		_, err := d.Tasks.Renew(ctx, principal, task, patienceFor(callWait), dialect.ChangeNote(func(n *dialect.Note) {
			if !slices.Contains(n.Accepted, step.ID) {
				n.Accepted = append(n.Accepted, step.ID)
			}
		}))
		if err != nil {
			return err
		}
		found = nil // it has changed
	}
	for {
		var t *tasks.Task
		var err error
		if answers := []steps.Answer{a}; found == nil {
			t, err = d.Tasks.Answer(ctx, principal, task, answers)
		} else if t, err = d.Tasks.AnswerFound(ctx, principal, found, answers); err == nil && t == nil { // it was taken
			return nil
		}
		found = nil
		var wrong *engine.AnswerError
		switch {
		case errors.As(err, &wrong) && a.Error == nil:
			d.Log.InfoContext(ctx, "answer not usable", "step", a.StepID, "reason", wrong.Reason)
			a.Result, a.Error = nil, &steps.ClientError{Code: wire.CodeInvalidParams, Message: "the answer is malformed: " + wrong.Reason}
		case err != nil, slices.Contains(t.Given, tasks.Given{Number: n, Sum: tasks.Sum(a)}): // it was taken, just now or before
			return err
		case !slices.Contains(t.Numbers, n):
			return errNoQuestion
		default: // the saga's time is over, and the worker that ends it will have written that soon
			select {
			case <-time.After(outagePause):
			case <-ctx.Done():
				return turns.ErrLedger
			}
		}
	}
}
