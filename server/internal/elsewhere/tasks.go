package elsewhere

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A task asks its clients what they can be asked, and elsewhere the rest. No request is held for that: the message of its status
// says what is asked and how it is answered, and its id is the resumeToken.

// byClient reports whether a client is asked a question itself.
func (r *Router) byClient(q engine.Routing, c *dialect.Caller) bool {
	return !q.User || r.Turns.ClientMay(q) && c.Features.Has(q.Needs)
}

// takesTask reports whether a task of a tool asks elsewhere: there is a way for each question to the user, and for some it
// is not the client.
func (r *Router) takesTask(t *engine.Program, c *dialect.Caller) (some bool) {
	if !c.Tasks || r.TaskMode(t) == engine.TasksForbidden || ownArguments(t) {
		return false
	}
	for _, q := range t.Routings() {
		if r.byClient(q, c) {
			continue
		}
		if some = r.Routes(q, c) != 0; !some { // better that it fails before it has done much
			return false
		}
	}
	return some
}

// Continues reports whether calls of a tool by such a client, or tasks, are continued by a call with a resumeToken.
func (r *Router) Continues(t *engine.Program, c *dialect.Caller) bool {
	return r.Takes(t, c) || r.takesTask(t, c)
}

// Begin begins the task of a call; c is nil if that asks nothing elsewhere.
func (r *Router) Begin(ctx context.Context, x *dialect.Exchange, c *Call, s tasks.Start) (*tasks.Task, error) {
	if c == nil {
		return r.Tasks.Start(ctx, s)
	}
	v := &view{Router: r, Exchange: x, call: c}
	s.Request.Elsewhere = true
	s.AtOnce, s.Request.Client, s.Request.Arguments = true, s.Request.Client.With(asked), []byte(c.Arguments)
	s.Note = dialect.ChangeNote(func(n *dialect.Note) { n.Elsewhere, n.Task, n.Call = true, true, v.digest() })(s.Note)
	var err error
	if v.task, err = r.Tasks.Start(ctx, s); err == nil && v.task.ID != "" && r.showsForm(c.Program, x.Caller) {
		v.remember(ctx)
	}
	return v.task, err
}

// Resume gives the task that a call names what the call says, and returns it.
func (r *Router) Resume(ctx context.Context, x *dialect.Exchange, c *Call) (*tasks.Task, error) {
	v := &view{Router: r, Exchange: x, call: c}
	result, err := v.goOn(ctx, time.Time{})
	refusal := v.refusal
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		refusal = refusedText
	case err != nil:
		return nil, err
	case result != nil:
		refusal = result.Content.Text()
	}
	if refusal != "" {
		return nil, wire.NewError(wire.CodeInvalidParams, refusal)
	}
	return v.task, nil
}

// Shown is what a client is to see of a task: the questions that it is asked itself, and the status with its message. If
// it is asked none, the task works as far as it can tell.
func (r *Router) Shown(ctx context.Context, x *dialect.Exchange, t *tasks.Task) (own []steps.Step, status tasks.Status, message string) {
	if !dialect.NoteOf(t).Task || t.Status != tasks.InputRequired || t.Program == nil || len(t.Questions) == 0 { // lists have none
		return t.Questions, t.Status, t.Message
	}
	w := relay.Words{Program: t.Program, Token: t.ID, Task: true}
	if t.Final {
		w.Refusal = relay.TooLate
	}
	var others []steps.Step
	var routes []steps.Routes
	for _, q := range t.Questions {
		if routing := t.Program.Routing(q.ID); r.byClient(routing, x.Caller) {
			own = append(own, q)
		} else {
			others, routes = append(others, q), append(routes, r.Routes(routing, x.Caller))
		}
	}
	if status = tasks.InputRequired; len(own) == 0 {
		status = tasks.Working
	}
	if len(others) == 0 || r.say(ctx, x.Principal, t.ID, &w, others, routes) != nil {
		return own, status, t.Message
	}
	return own, status, w.Text()
}

// AsksElsewhere reports whether a task does not wait for such a client to answer a question.
func (r *Router) AsksElsewhere(t *tasks.Task, question string, c *dialect.Caller) bool {
	return dialect.NoteOf(t).Task && t.Program != nil && !r.byClient(t.Program.Routing(question), c)
}
