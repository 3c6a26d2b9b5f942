package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"
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
	// Transport leads to the server: a [*HTTP] or [*Stdio].
	Transport Transport
	// Name and Version introduce the client.
	Name, Version string
	// Revision is the revision of MCP to offer; empty means the newest with sessions.
	Revision string
	// Elicitation, Sampling and Roots say what the client can answer.
	Elicitation, Sampling, Roots bool
	// Answer answers a request of the server. An [*Error] is sent as it is.
	Answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify gets the server's notifications. It does not take long.
	Notify func(method string, params json.RawMessage)
}

// sessionDialect is MCP up to 2025-11-25, whose servers ask by requests of their own while
// the client waits. Nothing of a call can be kept: where it stands is in the session.
type sessionDialect struct{}

func (sessionDialect) name() string       { return "mcp-sessions" }
func (sessionDialect) keepsAnswers() bool { return true }

func (sessionDialect) next(p *Position, h *Handlers) request {
	params := struct {
		Name      string          `json:"name,omitempty"`
		URI       string          `json:"uri,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Meta      *callMeta       `json:"_meta,omitempty"`
	}{Arguments: p.Arguments, URI: p.URI}
	r := request{session: true, handlers: h, subject: p.Subject(), progress: h.progressToken()}
	switch p.Kind() {
	case "prompt":
		r.method, params.Name, r.harmless = "prompts/get", p.Prompt, true
	case "resource":
		r.method, r.harmless = "resources/read", true
	default:
		r.method, params.Name = "tools/call", p.Tool
	}
	if r.progress != "" {
		params.Meta = &callMeta{ProgressToken: r.progress}
	}
	r.params = params
	return r
}

func (sessionDialect) cancel(*Position) (request, bool) { return request{}, false }

func (sessionDialect) list(method, cursor string) request {
	return request{method: method, params: listParams{Cursor: cursor}, harmless: true, session: true}
}

func (sessionDialect) parse(raw json.RawMessage, _ Limits) (turn, error) {
	return turn{result: raw}, nil
}

// errNotKept: a call ends with its session.
var errNotKept = errors.New("the server speaks a revision of MCP in which a call that has stopped cannot go on later")

// sessions keeps a session for the next request.
type sessions struct {
	mu     sync.Mutex
	idle   *openSession
	closed bool
}

func (s *sessions) close() error {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	if idle == nil {
		return nil
	}
	return idle.Close()
}

// openSession is a session and what it was opened for.
type openSession struct {
	Session
	config SessionConfig
	// asks are the server's requests, for the call that has the session to answer.
	asks chan ask
	// over is what is closed when the request under way is over; nil if there is none.
	over atomic.Pointer[chan struct{}]
	// waiting is how many of the server's requests wait.
	waiting atomic.Int64
	// notes holds the latest progress.
	notes chan notedProgress
}

// ask is a request of the server.
type ask struct {
	method string
	params json.RawMessage
	reply  chan<- Answer
}

// session returns a session whose server knows what h can answer or, without, what clients
// usually can.
func (c *Client) session(ctx context.Context, h *Handlers) (*openSession, error) {
	c.sessions.mu.Lock()
	found := c.sessions.idle
	c.sessions.idle = nil
	closed := c.sessions.closed
	c.sessions.mu.Unlock()
	if closed {
		return nil, &TransportError{Err: errClosed, final: true}
	}
	if found != nil {
		can := found.config
		if h == nil || can.Elicitation == (h.Elicit != nil) && can.Sampling == (h.Sample != nil) && can.Roots == (h.Roots != nil) {
			return found, nil
		}
		_ = found.Close()
	}
	if c.options.Sessions == nil {
		return nil, errors.New("this call needs Options.Sessions, as its server speaks an older revision of MCP")
	}
	s := &openSession{asks: make(chan ask), notes: make(chan notedProgress, 1)}
	introduction := implementationOf(c.options)
	s.config = SessionConfig{
		Transport: c.transport, Name: introduction.Name, Version: introduction.Version, Revision: c.options.Protocol,
		Elicitation: h == nil || h.Elicit != nil, Sampling: h == nil || h.Sample != nil, Roots: h != nil && h.Roots != nil,
		Answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			return s.answer(ctx, int64(c.options.Limits.Steps), method, params)
		},
		Notify: s.note,
	}
	if process, is := c.transport.(*Stdio); is && process.hasSpare() {
		// Some take nothing any more once they were asked something before initialize.
		hurried, cancel := context.WithTimeout(ctx, min(probePatience, c.options.Timeout))
		defer cancel()
		var err error
		if s.Session, err = c.options.Sessions(hurried, s.config); err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, ErrTimeout)
	defer cancel()
	var err error
	if s.Session, err = c.options.Sessions(limited, s.config); err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = &TransportError{Sent: true, Err: ErrTimeout, final: true}
		}
		return nil, err
	}
	return s, nil
}

// answer hands a request of the server to the call that has the session.
func (s *openSession) answer(ctx context.Context, most int64, method string, params json.RawMessage) (json.RawMessage, error) {
	defer s.waiting.Add(-1)
	over := s.over.Load()
	if s.waiting.Add(1) > most || over == nil {
		return nil, &Error{Code: jsonrpc2.CodeInternalError, Message: "this client has called nothing that could ask, or is asked too much at once"}
	}
	reply := make(chan Answer, 1)
	select {
	case s.asks <- ask{method, params, reply}:
	case <-*over:
		return nil, errCallOver
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case a := <-reply:
		if a.Error != nil {
			return nil, a.Error
		}
		return a.Result, nil
	case <-*over:
		return nil, errCallOver
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errCallOver is the answer to a server that asks too late.
var errCallOver = &Error{Code: jsonrpc2.CodeInternalError, Message: "the call is over"}

func (s *openSession) note(method string, params json.RawMessage) {
	p, ok := readProgress(method, params)
	if !ok {
		p, ok = readSessionTask(method, params)
	}
	if ok {
		select {
		case <-s.notes: // an older one
		default:
		}
		select {
		case s.notes <- p:
		default: // another one was faster
		}
	}
}

// readSessionTask reads how the task of MCP 2025-11-25 is that a call waits for.
func readSessionTask(method string, params json.RawMessage) (p notedProgress, ok bool) {
	var wire struct {
		ID      string    `json:"taskId"`
		Status  string    `json:"status"`
		Message string    `json:"statusMessage"`
		Created time.Time `json:"createdAt"`
		Updated time.Time `json:"lastUpdatedAt"`
	}
	if method != "notifications/tasks/status" || json.Unmarshal(params, &wire) != nil || wire.Status == "" {
		return p, false
	}
	p.Task = &Task{ID: wire.ID, Status: wire.Status, Message: wire.Message, Created: wire.Created, Updated: wire.Updated}
	p.Message = wire.Message
	return p, true
}

// inSession sends a request through a session, and has the handlers answer what the
// server asks meanwhile. Only the time in which no question is open counts as the server's.
func (c *Client) inSession(ctx context.Context, r *request) (json.RawMessage, error) {
	params, err := json.Marshal(r.params)
	if err != nil {
		return nil, err
	}
	s, err := c.session(ctx, r.handlers)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		result json.RawMessage
		err    error
	}
	limited, stop := context.WithCancelCause(ctx)
	done := make(chan outcome, 1)
	over := make(chan struct{})
	s.over.Store(&over)
	go func() {
		result, err := s.Request(limited, r.method, params)
		done <- outcome{result, err}
	}()
	patience := time.NewTimer(c.options.Timeout)
	defer patience.Stop()
	asked := map[string]int{}
	var last Task
	for {
		select {
		case o := <-done:
			s.over.Store(nil)
			close(over)
			if cause := context.Cause(limited); o.err != nil && cause != nil {
				o.err = cause
			}
			stop(nil)
			c.keep(s, o.err)
			return o.result, o.err
		case a := <-s.asks:
			if limited.Err() != nil {
				continue // it is answered when the call is over, and its task cancelled
			}
			patience.Stop()
			if answer, err := c.answerAsk(ctx, r, a, asked); err != nil {
				stop(err)
			} else {
				a.reply <- answer
			}
			patience.Reset(c.options.Timeout)
		case p := <-s.notes:
			if p.Task != nil { // the server lives
				patience.Reset(c.options.Timeout)
				if p.Task.Status == last.Status && p.Message == last.Message {
					break
				}
				last = *p.Task
			}
			if r.progress != "" && (p.Task != nil || p.token == r.progress) {
				r.handlers.OnProgress(p.Progress)
			}
		case <-patience.C:
			stop(&TransportError{Sent: true, Err: ErrTimeout, final: true})
		}
	}
}

// answerAsk has the right handler answer. An error ends the call.
func (c *Client) answerAsk(ctx context.Context, r *request, a ask, asked map[string]int) (Answer, error) {
	kind, known := stepKinds[a.method]
	if r.handlers == nil || !known {
		return Answer{Error: &Error{Code: jsonrpc2.CodeMethodNotFound, Message: "this client does not answer this here"}}, nil
	}
	if asked["all"]++; asked["all"] > c.options.MaxRounds {
		return Answer{}, fmt.Errorf("the tool asks for %w", &LimitError{"answers", int64(c.options.MaxRounds)})
	}
	if kind == "elicitation" {
		if err := c.options.Limits.checkForm(a.params); err != nil {
			return Answer{}, err
		}
	}
	asked[kind]++
	// These servers give what they ask no names.
	id := fmt.Sprintf("%s-%d", kind, asked[kind])
	answer, err := r.handlers.answer(ctx, &Request{Tool: r.subject, StepID: id, Round: asked["all"], Params: a.params}, kind)
	if errors.Is(err, ErrPause) {
		err = fmt.Errorf("%w; %w", err, errNotKept)
	}
	return answer, err
}

// keep keeps a session for the next request, unless it is lost or there is one.
func (c *Client) keep(s *openSession, err error) {
	if !errors.As(err, new(*TransportError)) {
		c.sessions.mu.Lock()
		if c.sessions.idle == nil && !c.sessions.closed {
			c.sessions.idle, s = s, nil
		}
		c.sessions.mu.Unlock()
	}
	if s != nil {
		_ = s.Close()
	}
}
