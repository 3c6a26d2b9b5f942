package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/resumable"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a client sends about a call that another replica has begun: its answers, and that it wants
// to read on.

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

// replyElsewhere answers GET with the rest of a request whose stream is not here, or not any
// more.
func (d *handshake) replyElsewhere(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session, last eventID) {
	if last.number == 0 || d.Tasks == nil {
		r.Error(nil, nothingToResume())
		return
	}
	found, err := d.findReading(ctx, s.agreed, x.Principal, last.number)
	switch {
	case err != nil:
		r.Error(nil, d.Translate(ctx, x.HTTPMethod, err))
		return
	case found == nil:
		r.Error(nil, nothingToResume())
		return
	}
	task, seen := found.task.ID, last.seen
	st := s.open(1, nil, true)
	reader := &streamReader{gone: make(chan struct{}), after: x.Header.Get("Last-Event-ID"), opening: markOf(last.number, seen)}
	defer st.carriedBy(reader, 0)()
	m := &wire.Message{ID: found.ID, Method: found.Method}
	respond := func(ctx context.Context, x *dialect.Exchange, p *peer, post *way) []byte {
		if found.task.Status.Ended() && seen > found.task.Events {
			return nil // the client has the response
		}
		c := d.newCall(x, p, post, found.Token)
		defer c.Notifier.Close()
		result, err := c.readOn(ctx, found, seen)
		var rerr *wire.Error
		if err != nil {
			rerr = c.refusal(ctx, err)
		}
		return wire.AppendResponse(nil, m.ID, result, rerr)
	}
	var rerr *wire.Error
	for range readOnTries { // another one may take the place that is free now
		s.endOlder(ctx, found.ID, func(old *sessionCall) bool { return old.task == task })
		if rerr = d.begin(ctx, x, s, st, m, true, task, respond); rerr == nil {
			break
		}
	}
	if rerr != nil { // it must not look like the answer to the request, which is under way
		s.forget(st)
		r.Error(nil, wire.TryAgain(rerr.Message))
		return
	}
	st.pump(ctx, r, reader)
}

// readOnTries is how often it is tried to read on, as several may at once.
const readOnTries = 5

// nothingToResume refuses an id that is no event's, or of a stream that is not kept.
func nothingToResume() *wire.Error {
	return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "there is nothing to resume after this Last-Event-ID, or no longer")
}

// readOn follows what another request has followed before, and answers as that would have.
func (c *call) readOn(ctx context.Context, found *reading, seen uint64) (json.RawMessage, error) {
	r := &reader{call: c, uri: found.URI, number: found.number, wait: callWait}
	if p := found.task.Program; found.Method == resumable.Method || p != nil && found.Alone && c.canResume() && c.TaskMode(p) != engine.TasksForbidden {
		r.token.Store(true)
	} else if found.Method != resultMethod && found.Alone && c.canResume() {
		r.resumes = found.task.Created.Add(resumable.After)
	}
	if noteOf(found.task) == nil || noteOf(found.task).Call == nil || found.Method != callMethod {
		r.alias = &found.alias
	}
	task := found.task
	if found.Method == resultMethod {
		return c.readResult(ctx, r, task, seen)
	}
	if found.Alone {
		var err error
		if task, err = r.enter(ctx, task, nil); err != nil {
			return nil, err
		}
	}
	if found.Method == resumable.Method {
		return r.resumed(ctx, task, seen)
	}
	out, err := r.called(ctx, task, seen, r.alias != nil)
	return r.resultOf(task, out, err)
}

// resultOf is the response to the request that has begun a task.
func (r *reader) resultOf(task *tasks.Task, out turns.End, err error) (json.RawMessage, error) {
	kind := engine.KindTool
	if task.Program != nil {
		kind = task.Program.Kind
	}
	switch { // what has ended can be of a program that this server does not have
	case out.Messages != nil || err != nil && kind == engine.KindPrompt:
		return r.promptResult(out, err)
	case err == nil && out.Result == nil, kind == engine.KindResource:
		return r.resourceResult(r.uri, out, err)
	}
	return r.toolResult(out, err)
}
