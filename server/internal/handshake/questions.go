package handshake

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/tasks2025"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// How a reader asks its client what the task asks: on a stream over HTTP by a request whose answer comes to
// the task by itself, at any replica; elsewhere by a call that waits for the answer.

// asked is a question that the client is being asked.
type asked struct {
	// takeBack tells the client that the answer is not needed any more, and why.
	takeBack func(why error)
	// late is when the client has taken too long, zero is never; tooLate is for then.
	late    time.Time
	tooLate func()
}

// errAnswered takes back a question that was answered elsewhere, or that the task does not
// wait for any more.
var errAnswered = errors.New("the answer is not needed any more")

// posts reports whether questions are sent whose answers come to the task by themselves.
func (r *reader) posts() bool { return r.streams() && r.number != 0 }

// silenced ends the wait of a task whose client can answer no more, unless it finds its questions elsewhere.
func (r *reader) silenced(ctx context.Context, cancel context.CancelCauseFunc) {
	why := context.Cause(r.peer.answering)
	if r.posts() {
		if r.stops() {
			return
		}
		if errors.Is(why, dialect.ErrStopping) { // another replica can take the answer
			select {
			case <-time.After(lastAnswers):
			case <-ctx.Done():
			}
		}
	}
	if r.waits.Load() {
		cancel(why)
	}
}

// ask asks the client those of the task's questions that it was not asked yet, and takes back
// those that need no answer any more. What makes it impossible to continue is given to failed: an
// *[engine.UnsupportedError] if the client cannot be asked what it would have to be.
func (r *reader) ask(ctx context.Context, failed func(error), t *tasks.Task) {
	for id, q := range r.asked {
		if !slices.ContainsFunc(t.Questions, func(s steps.Step) bool { return s.ID == id }) {
			q.takeBack(goneWith(t))
			delete(r.asked, id)
		}
	}
	r.waits.Store(len(t.Questions) > 0)
	if len(t.Questions) > 0 && r.peer.answering.Err() != nil {
		why := context.Cause(r.peer.answering)
		if r.posts() && r.stops() {
			return
		}
		if !r.posts() || !errors.Is(why, dialect.ErrStopping) {
			failed(why)
			return
		}
	}
	for i, step := range t.Questions {
		if r.asked[step.ID] != nil {
			continue
		}
		if r.Way == nil || !r.Turns.Features(r.features).Has(step.Needs) {
			lacking := &engine.UnsupportedError{StepID: step.ID, Needs: step.Needs}
			if t.Program != nil {
				lacking.Tool = t.Program.Name
			}
			failed(lacking)
			return
		}
		ask := r.askAndWait
		if r.posts() {
			ask = r.askOnStream
		}
		q, err := ask(ctx, failed, step, t.Numbers[i])
		if err != nil {
			failed(err)
			return
		}
		if r.late > 0 {
			q.late = time.Now().Add(r.late)
		}
		r.asked[step.ID] = q
	}
}

// askOnStream asks a question, the nth of the task, on the stream. Its id is the same on each stream of
// the request, and any replica can give the task the answer, so nothing waits for it here.
func (r *reader) askOnStream(_ context.Context, _ func(error), step steps.Step, n uint64) (*asked, error) {
	links := links{id: linkID(r.task, step.ID)}
	method, params, err := stepRequest(r.peer.revision, step, &links)
	if err != nil {
		return nil, err
	}
	if of, ok := r.Way.(tasks2025.Related); ok {
		params = dialect.RelatedTask(params, of.Task)
	}
	id := questionID(r.number, n)
	p := r.call.post
	event := p.stream.addMarked(p.mark(), eventRequest, wire.AppendCall(nil, id, method, params))
	over := false
	back := func(why error) {
		p.mu.Lock()
		if why == errAnswered && slices.Contains(p.call.answered, id) {
			why = nil
		}
		// A client that reads on after a break must not ask its user what needs no answer any more.
		p.stream.drop(func(e streamEvent) bool { return e.number == event })
		p.mu.Unlock()
		if why != nil && !over {
			p.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), why))
		}
		over = true
	}
	return &asked{
		takeBack: func(why error) {
			if errors.Is(why, dialect.ErrLeft) || why == errAnswered && r.name != "" {
				why = nil // it is asked elsewhere, or only this client can have answered
			}
			back(why)
		},
		tooLate: func() {
			back(turns.ErrLate)
			r.asking.Go(func() { // if that fails, others may answer
				_ = r.giveTaken(context.Background(), r.Principal, r.task, lateAnswer(step.ID), n)
			})
		},
	}, nil
}

// lateAnswer is what the task gets instead of an answer that has not come in time.
func lateAnswer(step string) steps.Answer {
	return steps.Answer{StepID: step, Error: &steps.ClientError{Code: dialect.CodeLate, Message: turns.ErrLate.Error()}}
}

// askAndWait asks a question, the nth of the task, and has a goroutine give that the answer.
func (r *reader) askAndWait(ctx context.Context, failed func(error), step steps.Step, n uint64) (*asked, error) {
	r.mu.Lock()
	method, params, err := stepRequest(r.peer.revision, step, &r.links)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.asking.Go(func() {
		defer cancel(nil)
		a, err := r.Way.Call(ctx, method, params)
		switch {
		case errors.Is(err, turns.ErrLate):
			a = lateAnswer(step.ID)
		case err != nil:
			if context.Cause(ctx) != errAnswered {
				failed(err)
			}
			return
		}
		a.StepID = step.ID
		r.mu.Lock()
		r.links.answered(step.ID, a)
		r.mu.Unlock()
		// The client may know by now that it has arrived.
		for {
			err = r.giveTaken(context.WithoutCancel(ctx), r.Principal, r.task, a, n)
			if stays := r.once && !r.token.Load(); !errors.Is(err, turns.ErrLedger) || ctx.Err() != nil || !stays {
				break
			}
		}
		if err != nil && err != errNoQuestion && context.Cause(ctx) != errAnswered { // another answer was faster
			failed(err)
		}
	})
	return &asked{takeBack: cancel, tooLate: func() { cancel(turns.ErrLate) }}, nil
}

// goneWith is why a task's question needs no answer any more, as the task is now.
func goneWith(t *tasks.Task) error {
	if t.Cancelling || t.Status == tasks.Cancelled {
		return dialect.ErrCancelled
	}
	return errAnswered
}

// opened tells the client that what it was to do on other pages is done.
func (r *reader) opened(t *tasks.Task) {
	if r.Way == nil {
		return
	}
	accepted := r.links.accepted
	if list, ok := jsonview.Strings(jsonview.Get(t.Note, "accepted")); ok {
		accepted = append(accepted, list...)
	}
	r.completed(accepted)
}
