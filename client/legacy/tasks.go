package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/client"
)

// tasksRevision is the one revision in which a tool may have to be called as a task
// (basic/utilities/tasks).
const tasksRevision = "2025-11-25"

// relatedTask is the key in _meta that says of which task a message is.
const relatedTask = "io.modelcontextprotocol/related-task"

const (
	// lastAnswer is how long a server has to cancel the task of a call that was given up.
	lastAnswer = 5 * time.Second
	// mostPages is how many pages of a list of tools are read.
	mostPages = 100
	// mostFailures is how often in a row the wait for a result may break.
	mostFailures = 5

	minPoll, defaultPoll, maxPoll = 100 * time.Millisecond, time.Second, time.Minute
)

// mustBeTask reports whether the server's tool is one that has to be called as a task. The server
// is asked once.
func (s *session) mustBeTask(ctx context.Context, tool string) bool {
	if s.conn == nil || s.InitializeResult().ProtocolVersion != tasksRevision {
		return false
	}
	s.mu.Lock()
	known := s.onlyTasks
	s.mu.Unlock()
	if known == nil {
		known = map[string]bool{}
		page := struct {
			Tools []struct {
				Name      string `json:"name"`
				Execution struct {
					TaskSupport string `json:"taskSupport"`
				} `json:"execution"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}{}
		for range mostPages {
			params := map[string]any{}
			if page.NextCursor != "" {
				params["cursor"] = page.NextCursor
			}
			raw, err := s.ask(ctx, "tools/list", params)
			page.Tools, page.NextCursor = nil, ""
			if err != nil || json.Unmarshal(raw, &page) != nil {
				return false
			}
			for _, t := range page.Tools {
				if t.Execution.TaskSupport == "required" {
					known[t.Name] = true
				}
			}
			if page.NextCursor == "" {
				break
			}
		}
		s.mu.Lock()
		s.onlyTasks = known
		s.mu.Unlock()
	}
	return known[tool]
}

// callTask calls a tool as a task and waits for its result, on whose stream the task asks. If ctx
// ends the task is cancelled.
func (s *session) callTask(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var call map[string]json.RawMessage
	if err := json.Unmarshal(params, &call); err != nil {
		return nil, err
	}
	call["task"] = json.RawMessage("{}")
	// Without an answer there is nothing to cancel.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastAnswer, stop) })()
	raw, err := s.ask(lasting, "tools/call", call)
	if err != nil {
		return nil, err
	}
	var created struct {
		Task json.RawMessage `json:"task"`
	}
	var task struct {
		ID   string  `json:"taskId"`
		Poll float64 `json:"pollInterval"`
	}
	if json.Unmarshal(raw, &created) != nil || json.Unmarshal(created.Task, &task) != nil || task.ID == "" {
		return nil, &client.ProtocolError{Reason: "the server was to call a tool as a task, and answered without one"}
	}
	about := map[string]any{"taskId": task.ID}
	type outcome struct {
		result json.RawMessage
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := s.result(ctx, about)
		done <- outcome{result, err}
	}()
	poll := time.NewTicker(min(max(time.Duration(task.Poll)*time.Millisecond, minPoll), maxPoll))
	if task.Poll <= 0 {
		poll.Reset(defaultPoll)
	}
	defer poll.Stop()
	s.notify("notifications/tasks/status", created.Task)
	for {
		select {
		case o := <-done:
			if ctx.Err() != nil {
				_, _ = s.ask(lasting, "tasks/cancel", about)
			}
			return o.result, o.err
		case <-poll.C:
			if raw, err = s.ask(ctx, "tasks/get", about); err == nil {
				s.notify("notifications/tasks/status", raw)
			}
		}
	}
}

// result waits for the result of a task, again if the wait breaks: the task goes on.
func (s *session) result(ctx context.Context, about any) (json.RawMessage, error) {
	for failures := 1; ; failures++ {
		began := time.Now()
		result, err := s.ask(ctx, "tasks/result", about)
		if time.Since(began) > time.Minute {
			failures = 1
		}
		if err == nil || ctx.Err() != nil || failures >= mostFailures || !errors.As(s.failed(ctx, err), new(*client.TransportError)) {
			return result, err
		}
		select {
		case <-time.After(defaultPoll):
		case <-ctx.Done():
		case <-s.over:
			return nil, err
		}
	}
}

// asked is a request of this package on a connection of the SDK.
type asked struct {
	id     string
	answer chan *jsonrpc.Response
	// resumable: the SDK comes back for the rest of the stream that it is answered on.
	resumable bool
}

type askedKey struct{}

// ask sends a request that the SDK does not know. Of its errors, s.failed makes the client's.
func (s *session) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.lastID++ // the SDK has numbers
	a := &asked{id: fmt.Sprint("saga-", s.lastID), answer: make(chan *jsonrpc.Response, 1)}
	s.asked[a.id] = a
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.asked, a.id)
		s.mu.Unlock()
	}()
	// Whatever ends the wait ends the stream.
	ctx, stop := context.WithCancel(context.WithValue(ctx, askedKey{}, a))
	defer stop()
	id, err := jsonrpc.MakeID(a.id)
	if err == nil {
		err = s.conn.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: raw})
	}
	if err != nil {
		return nil, err
	}
	select {
	case r := <-a.answer:
		return r.Result, r.Error
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.over:
		return nil, mcp.ErrConnectionClosed
	}
}

// give passes a response on, if it is one to the request.
func (a *asked) give(m jsonrpc.Message) bool {
	r, is := m.(*jsonrpc.Response)
	if !is || r.ID.Raw() != a.id {
		return false
	}
	select {
	case a.answer <- r:
	default: // it was answered before
	}
	return true
}

// shared is a transport whose connection the session uses beside the SDK. The connections of HTTP
// cannot be wrapped, as the SDK finds methods of its own in them; see [overheard].
type shared struct {
	mcp.Transport
	s *session
}

func (t shared) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err == nil && t.s.process != nil {
		c = sharedLines{c, t.s}
	}
	t.s.conn = c
	return c, err
}

type sharedLines struct {
	mcp.Connection
	s *session
}

func (c sharedLines) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, is := m.(*jsonrpc.Response); err == nil && is {
		c.s.mu.Lock()
		id, _ := r.ID.Raw().(string)
		a := c.s.asked[id]
		c.s.mu.Unlock()
		if a != nil {
			a.give(r) // the SDK passes over what it has not asked
		}
	}
	return m, err
}

// overheard is the body of a response that the SDK reads, and in which the answer to a request is
// looked for that the SDK passes over.
type overheard struct {
	io.ReadCloser
	a      *asked
	events bool
	// read is what has not been looked at; up to seen there is no end of a line in it. event is
	// the data of the event that has begun.
	read, event []byte
	seen        int
}

// Read implements [io.Reader].
func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.read = append(o.read, p[:n]...)
	for o.events {
		i := bytes.IndexByte(o.read[o.seen:], '\n')
		if i < 0 {
			o.seen = len(o.read)
			break
		}
		o.line(bytes.TrimRight(o.read[:o.seen+i], "\r"))
		o.read, o.seen = o.read[o.seen+i+1:], 0
	}
	if err != nil {
		if !o.events {
			o.event, o.read = o.read, nil
		}
		o.line(nil)
		o.end()
	}
	return n, err
}

// line takes a line of a stream of events; an empty one ends an event.
func (o *overheard) line(line []byte) {
	switch name, value, _ := bytes.Cut(line, []byte(":")); {
	case len(line) == 0:
		if m, err := jsonrpc.DecodeMessage(o.event); err == nil {
			o.a.give(m)
		}
		o.event = nil
	case string(name) == "id":
		o.a.resumable = true
	case string(name) == "data":
		o.event = append(append(o.event, value...), '\n')
	}
}

// Close implements [io.Closer].
func (o *overheard) Close() error {
	o.end()
	return o.ReadCloser.Close()
}

// end has the request fail that gets no answer any more.
func (o *overheard) end() {
	if id, err := jsonrpc.MakeID(o.a.id); err == nil && !o.a.resumable {
		o.a.give(&jsonrpc.Response{ID: id, Error: io.ErrUnexpectedEOF})
	}
}
