// Package elsewhere asks users whose clients cannot be asked. The call of such a client ends with a result like any other,
// which says what is asked and how to go on: by a form in the window of the host, on a page of the server, or in the
// chat, by the model. The client's next call of the tool has a resumeToken, and gets what has become of it.
//
// With a ledger the call is one in the durable core. Its name is the resumeToken, and whatever answers it does so by
// [tasks.Viewer]: who has the name, and is the same principal, sees it. held.go begins such calls and waits for them,
// and tasks.go has tasks ask in the same ways.
// Without a ledger the model is the only way, and carries the sealed token of the saga: carried.go. answers.go reads what
// models bring, package relay has what they read, and lists.go what lists show.
package elsewhere

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Who has given an answer, as [steps.Answer] says it.
const (
	ByApp   = "app"
	ByPage  = "page"
	ByRelay = "relay"
)

// Router has questions asked elsewhere. Its zero value is none; use [New].
type Router struct {
	*dialect.Host
	lists sync.Map // see [Router.Listed]
}

// New returns the router of a host. All of a host's are the same.
func New(h *dialect.Host) *Router { return &Router{Host: h} }

// Routes are the routes by which a question can be asked of a client elsewhere.
func (r *Router) Routes(q engine.Routing, c *dialect.Caller) (open steps.Routes) {
	allowed := engine.BothRoutes(q.Allowed, r.Questions.Force)
	if allowed.Has(steps.RouteApp) && r.Tasks != nil && r.Questions.Apps && c.Apps && (c.Trusted || !q.Consent) {
		open |= steps.RouteApp
	}
	if allowed.Has(steps.RoutePage) && r.Tasks != nil && r.Questions.Pages != nil {
		open |= steps.RoutePage
	}
	if allowed.Has(steps.RouteRelay) && !r.Questions.NoRelay && !q.Consent {
		open |= steps.RouteRelay
	}
	return open
}

// Takes reports whether calls of a tool by such a client are answered here. They are if the client cannot be asked any of
// the tool's questions to the user, or must not be asked all of them, and there is another way for one. But who answers
// here cannot ask a client's model or its roots: a client that has what the tool needs of these is asked itself.
func (r *Router) Takes(t *engine.Program, c *dialect.Caller) bool {
	if r.TaskMode(t) == engine.TasksRequired || t.Yields && r.Tasks == nil || ownArguments(t) {
		return false
	}
	asks, mustNot, elsewhere := false, false, false
	for _, q := range t.Routings() {
		if !q.User {
			asks = asks || c.Features.Has(q.Needs) && !r.Turns.Features(steps.Features{}).Has(q.Needs)
			continue
		}
		if !r.Turns.ClientMay(q) {
			mustNot = true
		} else if c.Features.Has(q.Needs) {
			asks = true
		}
		elsewhere = elsewhere || r.Routes(q, c) != 0
	}
	return elsewhere && (mustNot || !asks)
}

// ownArguments reports whether a tool has arguments of its own with the names of those that go on with a call.
func ownArguments(t *engine.Program) bool {
	properties := jsonview.Get(t.InputSchema, "properties")
	return jsonview.Get(properties, engine.ResumeToken) != nil || jsonview.Get(properties, answersArgument) != nil
}

// Call is a call of a tool that is answered here.
type Call struct {
	Program *engine.Program
	// Token is the handle of a call that waits; empty begins one.
	Token string
	// Arguments are the tool's, and Answers what the call says beside them.
	Arguments, Answers jsontext.Value
	// Request is where other servers find what the client's request waits for; nil where none looks for it.
	Request Request
	// Found is the task of a client that has lost its request and comes back for the answer, and After the number of the
	// last event that it has.
	Found *tasks.Task
	After uint64
}

// Request is the request of a client that comes back for the answer, to any server.
type Request interface {
	// Start begins the task of a call without a key, with that note, or finds that of the same request.
	Start(ctx context.Context, s *tasks.Start, note *dialect.Note) (*tasks.Task, error)
	// Held says that the client waits for the task from now on, and Passed which event it gets next.
	Held(ctx context.Context, t *tasks.Task)
	Passed(event uint64)
}

// Read reads a call of a tool, which may be to begin a task: what goes on by its token, which is of a part unless there is a call.
// That is nil if it is not to be answered here.
func (r *Router) Read(x *dialect.Exchange, t *engine.Program, arguments jsontext.Value, task bool) (*Call, dialect.Resumed, *wire.Error) {
	calls, asTask := r.Takes(t, x.Caller), r.takesTask(t, x.Caller)
	older := func(p *engine.Program) bool { return r.Continues(p, x.Caller) } // whose calls may still wait
	takes := calls || asTask || !ownArguments(t) && !(t.Yields && r.Tasks == nil) && slices.ContainsFunc(r.Tools.Revisions(t.Kind, t.Name), older)
	part, rerr := dialect.ReadResumed(x.Message.Params, takes || t.Yields, arguments)
	handle := part.Token != "" && dialect.OwnTaskID(part.Token)
	switch {
	case rerr != nil,
		!takes && (!handle || r.Tasks == nil || len(t.Asks) == 0),
		r.Tasks != nil && part.Token != "" && !handle && t.Yields,
		part.Token == "" && (task && !asTask || !task && !calls):
		return nil, part, rerr
	}
	call := &Call{Program: t, Token: part.Token, Arguments: part.Arguments}
	if call.Answers = jsonview.Get(part.Arguments, answersArgument); call.Answers != nil && takes {
		call.Arguments = dialect.With(part.Arguments, answersArgument, nil)
	}
	return call, part, nil
}

// answersArgument is the argument that has what the user has said.
const answersArgument = "answers"

// Call answers a call of a tool. What fails before the tool has begun, or without a word for the model, is an error.
func (r *Router) Call(ctx context.Context, x *dialect.Exchange, c *Call) (*content.Result, error) {
	if r.Tasks == nil {
		return r.carried(ctx, x, c)
	}
	v := &view{Router: r, Exchange: x, call: c, began: time.Now()}
	result, err := v.answer(ctx)
	if c.Token != "" && errors.Is(err, tasks.ErrNotFound) {
		return dialect.Stopped(nil, refusedText), nil
	}
	return result, err
}

const (
	// refusedText is said of every token that leads to nothing: it was mistyped, or what it named has ended, well or badly, or
	// waits and cannot be read here. So the text may not promise that nothing stands, nor lead a model to do it all once more.
	refusedText = "The resumeToken is not valid here, or no longer, so this call has done nothing. Use it, and the arguments, exactly as they were in the last result. If they were, what it named may have ended, well or not, or still wait, and what it did may stand: find out what has been done, and ask the user, before you call the tool without the resumeToken, as that does all of it anew."
	// otherArguments is said of a call that continues with other arguments than it began with.
	otherArguments = "The arguments are not those of the first call, so nothing was done. Call the tool again with the same arguments and the resumeToken, or without the resumeToken to begin anew."
)
