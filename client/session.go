package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/inturn"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Session is an open session with a server of an older revision of MCP. It is safe for
// concurrent use.
type Session interface {
	// Request sends a request and returns its result. If ctx ends, the server gets a cancellation.
	// Errors are [*Error] for what the server answers, [*TransportError] and
	// [*ProtocolError] for what goes wrong on the way, and ctx's.
	Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Close ends the session.
	Close() error
}

// SessionConfig says how a [Session] is opened.
type SessionConfig struct {
	Transport     Transport // leads to the server: a [*HTTP] or [*Stdio]
	Name, Version string    // introduce the client
	Revision      string    // revision of MCP to offer; empty means the newest with sessions
	// Elicitation, Sampling and Roots say what the client can answer.
	Elicitation, Sampling, Roots bool
	Extensions                   map[string]any // declared besides, by name, with their settings
	// Answer answers a request of the server, and numbers them as it is called. An [*Error] is sent as it is.
	Answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify gets the server's notifications. It does not take long.
	Notify func(method string, params json.RawMessage)
}

// sessionDialect is MCP up to 2025-11-25, whose servers ask in a session, which holds where a call stands.
type sessionDialect struct{ asTask bool }

func (d sessionDialect) next(p *Position, h *Handlers) request {
	q := callParams(p)
	r := request{method: callMethods[p.Kind()], harmless: p.Kind() != "tool", session: true, asTask: d.asTask, handlers: h, subject: p.Subject()}
	if d.asTask {
		q.Task = &struct{}{}
	}
	q.Meta.ProgressToken, r.notify = h.progress()
	r.params = q
	return r
}

func (sessionDialect) list(method, cursor string) request {
	return request{method: method, params: params{Cursor: cursor}, harmless: true, session: true}
}

func (sessionDialect) parse(raw json.RawMessage, _ Limits) (turn, error) {
	return turn{result: raw}, nil
}

// errNotKept: a call ends with its session.
var errNotKept = errors.New("the server speaks a revision of MCP in which a call that has stopped cannot go on later")

// openSession is a session and what it was opened for.
type openSession struct {
	Session
	config SessionConfig
	call   atomic.Pointer[sessionCall] // the one that has the session, or nil
}

// keep keeps a session, whose requests are all answered, for the next request, or closes it if there is one.
func (c *Client) keep(s *openSession) {
	select {
	case c.idle <- s:
	default:
		_ = s.Close()
	}
	if c.closed.Err() != nil {
		_ = c.closeIdle()
	}
}

func (c *Client) closeIdle() error {
	select {
	case s := <-c.idle:
		return s.Close()
	default:
		return nil
	}
}

// session returns a session whose server knows what h can answer or, without, what clients usually can.
func (c *Client) session(ctx context.Context, h *Handlers) (*openSession, error) {
	if c.closed.Err() != nil {
		return nil, &TransportError{Err: errClosed, final: true}
	}
	s, h := &openSession{}, cmp.Or(h, c.options.Lists)
	introduction := implementationOf(c.options)
	s.config = SessionConfig{
		Transport: c.transport, Name: introduction.Name, Version: introduction.Version, Revision: c.options.Protocol,
		Elicitation: h == nil || h.Elicit != nil, Sampling: h == nil || h.Sample != nil, Roots: h != nil && h.Roots != nil,
		Extensions: c.options.Extensions, Answer: s.answer, Notify: s.notify,
	}
	select {
	case idle := <-c.idle:
		can, want := idle.config, s.config
		if h == nil || can.Elicitation == want.Elicitation && can.Sampling == want.Sampling && can.Roots == want.Roots {
			return idle, nil
		}
		_ = idle.Close()
	default:
	}
	if c.options.Sessions == nil {
		return nil, errors.New("this call needs Options.Sessions, as its server speaks an older revision of MCP")
	}
	open := func(patience time.Duration) (err error) {
		limited, cancel := context.WithTimeoutCause(ctx, min(patience, c.options.Timeout), ErrTimeout)
		defer cancel()
		if s.Session, err = c.options.Sessions(limited, s.config); err != nil && errors.Is(context.Cause(limited), ErrTimeout) {
			err = &TransportError{Sent: true, Err: ErrTimeout, final: true}
		}
		return err
	}
	// Some processes take nothing any more once they were asked something before initialize.
	if _, is := c.transport.(*Stdio); is && c.options.Protocol == "" && open(probePatience) == nil {
		return s, nil
	}
	return s, open(c.options.Timeout)
}

// sessionCall is a request in a session, whose handlers answer what the server asks meanwhile.
type sessionCall struct {
	*Client
	*request
	ctx  context.Context
	stop context.CancelCauseFunc
	// patience ends the call after limit, but does not run while a handler works: that time is not the server's.
	patience *time.Timer
	limit    time.Duration
	task     context.Context // until the task has ended that the call is; nil if it is none
	waiting  atomic.Int64    // how many of the server's requests wait
	// handling is held while a handler works, and guards limit and task.
	handling sync.Mutex
	// entering guards how often each kind of step was asked, and last, which is closed when the question that came last is done with.
	entering sync.Mutex
	asked    map[string]int
	last     chan struct{}
	panicked
}

// errNoReturn is why a call ends whose handler has not returned.
var errNoReturn = errors.New("a handler of the call has not returned")

func (call *sessionCall) broken() { call.stop(errNoReturn) }

// inSession sends a request through a session.
func (c *Client) inSession(ctx context.Context, r *request) (json.RawMessage, error) {
	params, err := json.Marshal(r.params)
	if err != nil {
		return nil, err
	}
	s, err := c.session(ctx, r.handlers)
	if err != nil {
		return nil, err
	}
	call := &sessionCall{Client: c, request: r, limit: c.options.Timeout, asked: map[string]int{}}
	call.ctx, call.stop = context.WithCancelCause(ctx)
	call.patience = time.AfterFunc(c.options.Timeout, func() { call.stop(&TransportError{Sent: true, Err: ErrTimeout, final: true}) })
	s.call.Store(call)
	var result json.RawMessage
	if r.asTask {
		result, err = call.callTask(s, params)
	} else {
		result, err = s.Request(call.ctx, r.method, params)
	}
	answered := err == nil || errors.As(err, new(*Error))
	if cause := context.Cause(call.ctx); err != nil && cause != nil {
		err = cause
	}
	s.call.Store(nil)
	call.stop(nil)
	call.handling.Lock() // no handler works after the call
	call.patience.Stop()
	call.handling.Unlock()
	if result = sound(result); answered {
		c.keep(s)
	} else {
		_ = s.Close() // what the server still asks for this call, nothing tells from what it asks for the next
	}
	call.again()
	return result, err
}

// errNotAsked is the answer to a server that asks outside of a call, or too much at once.
var errNotAsked = &Error{Code: jsonrpc2.CodeInternalError, Message: "this client has called nothing that could ask, or is asked too much at once"}

// answer answers a request of the server.
func (s *openSession) answer(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	call := s.call.Load()
	if call == nil {
		return nil, errNotAsked
	}
	defer call.waiting.Add(-1)
	if call.waiting.Add(1) > int64(call.options.Limits.Steps) {
		return nil, errNotAsked
	}
	question, before, done := call.enter(method, params)
	defer close(done)
	inturn.Take(ctx)
	if before != nil {
		<-before
	}
	call.handling.Lock()
	defer call.handling.Unlock()
	if call.ctx.Err() != nil {
		return nil, errNotAsked
	}
	call.patience.Stop()
	defer call.patience.Reset(call.limit)
	var answer Answer
	err := errNoReturn
	call.guard(call.broken, func() { answer, err = call.answer(method, question) })
	switch {
	case err != nil:
		call.stop(err)
		if call.task != nil {
			<-call.task.Done() // it is to be cancelled, not to fail of this answer
		}
		return nil, errNotAsked
	case answer.Error != nil:
		return nil, answer.Error
	}
	return answer.Result, nil
}

// enter gives a question its place: its name, what is closed when those before it are done with, and what to close
// when it is. These servers give what they ask no names.
func (call *sessionCall) enter(method string, params json.RawMessage) (question *Request, before, done chan struct{}) {
	call.entering.Lock()
	defer call.entering.Unlock()
	before, done = call.last, make(chan struct{})
	call.last = done
	if kind, known := stepKinds[method]; known {
		call.asked["all"]++
		call.asked[kind]++
		question = &Request{Tool: call.subject, StepID: fmt.Sprintf("%s-%d", kind, call.asked[kind]), Round: call.asked["all"], Params: params}
	}
	return question, before, done
}

// answer has the right handler answer. An error ends the call.
func (call *sessionCall) answer(method string, question *Request) (Answer, error) {
	if call.handlers == nil || question == nil {
		return Answer{Error: &Error{Code: jsonrpc2.CodeMethodNotFound, Message: "this client does not answer this here"}}, nil
	}
	if question.Round > call.options.MaxRounds {
		return Answer{}, fmt.Errorf("the tool asks for %w", &LimitError{"answers", int64(call.options.MaxRounds)})
	}
	kind := stepKinds[method]
	if kind == "elicitation" {
		if err := call.options.Limits.checkForm(question.Params); err != nil {
			return Answer{}, err
		}
	}
	answer, err := call.handlers.answer(call.ctx, question, kind)
	if errors.Is(err, ErrPause) {
		err = fmt.Errorf("%w; %w", err, errNotKept)
	}
	return answer, err
}

// notify passes a notification on, unless a handler works: handlers are called one at a time.
func (s *openSession) notify(method string, params json.RawMessage) {
	call := s.call.Load()
	if call == nil || call.request.notify == nil || !call.handling.TryLock() {
		return
	}
	defer call.handling.Unlock()
	if call.ctx.Err() == nil {
		call.guard(call.broken, func() { call.request.notify(method, params) })
	}
}

const (
	// lastAnswer is how long a server has to cancel the task of a call that was given up.
	lastAnswer = 5 * time.Second
	// resultTries is how often a server is asked for the result of a task, if the answer is lost.
	resultTries = 5
)

// callTask returns the result of a tool called as a task of 2025-11-25, which asks by tasks/result, and ends with the call.
func (call *sessionCall) callTask(s Session, params json.RawMessage) (json.RawMessage, error) {
	// Without an answer there is no task to cancel.
	lasting, stop := context.WithCancel(context.WithoutCancel(call.ctx))
	defer stop()
	defer context.AfterFunc(call.ctx, func() { time.AfterFunc(lastAnswer, stop) })()
	raw, err := s.Request(lasting, "tools/call", params)
	if err != nil {
		return nil, err
	}
	if raw = jsonview.Get(raw, "task"); raw == nil {
		return nil, malformed("the server was to call a tool as a task, and answered without one")
	}
	task, err := parseTask(raw, call.options.Limits)
	if err != nil {
		return nil, err
	}
	// From now on it takes as long as it takes.
	call.handling.Lock()
	call.task, call.limit = lasting, 1<<62
	call.patience.Reset(call.limit)
	call.handling.Unlock()
	call.handlers.showTask(task)
	about, err := json.Marshal(map[string]string{"taskId": task.ID})
	if err != nil {
		return nil, err
	}
	result, err := s.Request(call.ctx, "tasks/result", about)
	for try := 1; errors.As(err, new(*TransportError)) && try < resultTries && sleep(call.ctx, defaultPoll) == nil; try++ {
		result, err = s.Request(call.ctx, "tasks/result", about) // the task continues if an answer is lost
	}
	if err != nil {
		time.AfterFunc(lastAnswer, stop)
		_, _ = s.Request(lasting, "tasks/cancel", about)
	}
	if lost, is := errors.AsType[*TransportError](err); is {
		err = &TransportError{Sent: true, Status: lost.Status, Err: lost.Err, final: true} // the call had begun
	}
	return result, err
}
