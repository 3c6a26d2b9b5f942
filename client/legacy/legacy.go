//lint:file-ignore SA1019 What the SDK calls deprecated is what these revisions have.

// Package legacy has package client speak to servers of MCP 2024-11-05 to 2025-11-25,
// which keep a session for each client:
//
//	c := client.New(&client.HTTP{URL: address}, client.Options{Sessions: legacy.Open})
//
// The sessions are those of the official Go SDK, over Streamable HTTP and over the standard input and
// output of a process; the older transport of HTTP with two addresses is not spoken. They are in a package of their own so that only who imports it links the SDK.
//
// A tool that has to be called as a task of 2025-11-25 is, and its task ends with the call.
//
// A call in a session cannot be stopped and continued later, and ends with the
// session. The SDK reads what servers ask into types of its own: the fields of a form come
// in the order of their names.
package legacy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/client"
)

// Open opens a session. It is for [client.Options].Sessions. limit is for the opening only.
func Open(limit context.Context, config client.SessionConfig) (_ client.Session, err error) {
	s := &session{heard: make(chan struct{}, 1), backlog: newBacklog()}
	// What is opened lives longer than limit, of which the SDK knows nothing.
	ctx, stop := context.WithCancel(context.WithoutCancel(limit))
	s.stop = func() {
		stop()
		s.fail(nil)
	}
	opened := context.AfterFunc(limit, s.stop)
	defer func() {
		opened()
		if err != nil {
			s.stop()
			err = s.failed(limit, err)
		}
	}()
	options := &mcp.ClientOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: capabilities(config),
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if raw, err := json.Marshal(r.Params); err == nil {
				config.Notify("notifications/progress", raw)
			}
		},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	}
	if config.Elicitation {
		// The SDK checks what it hands to a handler, and fills in defaults.
		options.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			p := *r.Params
			if p.Mode == "" && p.URL == "" { // the SDK writes what a server has left out
				p.Mode = "form"
			}
			return answer[mcp.ElicitResult](ctx, config, "elicitation/create", &p)
		}
	}
	speaker := mcp.NewClient(&mcp.Implementation{Name: config.Name, Version: config.Version}, options)
	speaker.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			s.handled()
			if e, is := r.(*mcp.ElicitRequest); is && e.Params == nil { // the SDK would panic
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "elicitation/create needs params"}
			}
			ctx, taken := s.taking(ctx, method)
			defer taken()
			switch method {
			case "sampling/createMessage":
				return answer[mcp.CreateMessageWithToolsResult](ctx, config, method, r.GetParams())
			case "roots/list":
				return answer[mcp.ListRootsResult](ctx, config, method, r.GetParams())
			}
			return next(ctx, method, r)
		}
	})
	for _, method := range methods {
		if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](speaker, ownPrefix+method); err != nil {
			return nil, err
		}
	}
	connect := func(t mcp.Transport) (err error) {
		newest := "2025-11-25" // of the revisions with sessions
		s.ClientSession, err = speaker.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: cmp.Or(config.Revision, newest)})
		return err
	}
	switch t := config.Transport.(type) {
	case *client.Stdio:
		process, err := t.Open()
		if err != nil {
			return nil, err
		}
		s.process = process
		if err := connect(&orderly{Transport: &mcp.IOTransport{Reader: process, Writer: writing{process, s}, MaxLineLength: t.MaxLine}, backlog: s.backlog}); err != nil {
			_ = process.Close()
			return nil, err
		}
	case *client.HTTP:
		sender, err := t.Client()
		if err != nil {
			return nil, err
		}
		w := &watcher{inner: sender.Transport, session: s, limit: cmp.Or(max(t.MaxResponse, 0), 8<<20)}
		sender.Transport = w
		if err = connect(&mcp.StreamableClientTransport{Endpoint: t.URL, HTTPClient: sender}); err != nil {
			return nil, w.refused(t.URL, err)
		}
	default:
		return nil, fmt.Errorf("there are no sessions over a %T", t)
	}
	return s, nil
}

func capabilities(config client.SessionConfig) *mcp.ClientCapabilities {
	c := &mcp.ClientCapabilities{Extensions: config.Extensions}
	if config.Elicitation {
		c.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
	}
	if config.Sampling {
		c.Sampling = &mcp.SamplingCapabilities{}
	}
	if config.Roots {
		c.RootsV2 = &mcp.RootCapabilities{}
	}
	return c
}

// relatedTask is the key in _meta that says of which task a message is.
const relatedTask = "io.modelcontextprotocol/related-task"

// answer has the client answer a request of the server.
func answer[R any](ctx context.Context, config client.SessionConfig, method string, params any) (*R, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	said, err := config.Answer(ctx, method, raw)
	var refusal *client.Error
	switch {
	case errors.As(err, &refusal):
		return nil, &jsonrpc.Error{Code: refusal.Code, Message: refusal.Message, Data: refusal.Data}
	case err != nil:
		return nil, err
	}
	result := new(R)
	if err := json.Unmarshal(said, result); err != nil {
		return nil, err
	}
	var of struct {
		Meta map[string]any `json:"_meta"`
	}
	if _ = json.Unmarshal(raw, &of); of.Meta[relatedTask] != nil {
		any(result).(mcp.Result).SetMeta(map[string]any{relatedTask: of.Meta[relatedTask]})
	}
	return result, nil
}

// writing closes nothing: the process is ended as a whole, by its session.
type writing struct {
	io.Writer
	session *session
}

func (w writing) Write(line []byte) (int, error) {
	renamed, cancels := rename(line)
	n, err := w.Writer.Write(renamed)
	if n > 0 {
		w.session.written.Add(1)
	}
	w.session.sent(cancels)
	return len(line), err
}

func (writing) Close() error { return nil }

// watcher notes the status of the last response, bounds what responses bring, and has streams be asked for again that
// cannot be had just now.
type watcher struct {
	inner   http.RoundTripper
	session *session
	limit   int64 // of an event, in bytes
	status  atomic.Int64
	streams atomic.Bool // the server has given the stream that is outside of calls
}

// refused is why there is no session at an address, if the last response has a status that says so.
func (w *watcher) refused(address string, err error) error {
	switch status := int(w.status.Load()); status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &client.TransportError{Sent: true, Status: status, Err: err}
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		if u, parsed := url.Parse(address); parsed == nil {
			address = u.Redacted()
		}
		err = fmt.Errorf("%s is not an MCP endpoint; check the path of the URL, which most servers have at /mcp", address)
		return &client.TransportError{Sent: true, Status: status, Err: err}
	}
	return err
}

func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancel(r.Context())
	ended := context.AfterFunc(w.session.broken, end)
	r = r.WithContext(ctx)
	cancels, owed := false, int64(1)
	way, is := r.Context().Value(wayKey{}).(*way)
	if is {
		way.sent.Store(true)
		owed = 0
	}
	w.session.owes(owed)
	defer w.session.owes(-owed)
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		w.session.answers(decode(body))
		body, cancels = rename(body)
		r = r.Clone(r.Context())
		r.ContentLength = int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
	}
	var response *http.Response
	err := context.Cause(w.session.broken)
	if err == nil {
		response, err = w.inner.RoundTrip(r)
	}
	w.session.sent(cancels)
	if err != nil {
		end()
		ended()
		if r.Method == http.MethodGet && w.session.broken.Err() != nil { // the SDK would try it again
			return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody, Request: r}, nil
		}
		return nil, err
	}
	w.status.Store(int64(response.StatusCode))
	if is && r.Method == http.MethodPost {
		switch status := response.StatusCode; status {
		case http.StatusNotFound: // it does not have the session any more
			way.sent.Store(false)
		case http.StatusUnauthorized, http.StatusForbidden:
			way.status.Store(int64(status))
		}
	}
	body := &paced{
		ReadCloser: response.Body, backlog: w.session.backlog, limit: w.limit,
		end: ctx.Done(), closed: func() { end(); ended() },
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		body.events = bufio.NewReader(response.Body)
	}
	response.Body = body
	if r.Method != http.MethodGet {
		return response, nil
	}
	// The SDK gives its session up if it comes back to a stream and is refused; without an answer it comes again. That the
	// server has no stream outside of calls it learns from any refusal.
	again := r.Header.Get("Last-Event-ID") != "" || w.streams.Load()
	switch response.StatusCode {
	case http.StatusOK:
		w.streams.Store(true)
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if again {
			_ = response.Body.Close()
			return nil, fmt.Errorf("the stream cannot be had at present: %s", response.Status)
		}
	}
	return response, nil
}

type session struct {
	*mcp.ClientSession
	process io.Closer // nil over HTTP
	stop    context.CancelFunc
	written atomic.Int64 // how many lines the process was given, if not to their ends
	// unsent is how many cancellations the SDK has still to send, after their requests have returned; heard wakes Close.
	unsent atomic.Int64
	heard  chan struct{}
	*backlog
}

// lastWord is how long Close waits for cancellations, which it must not overtake; the SDK as long.
const lastWord = 5 * time.Second

// sent notes that a message was sent or has failed, if it cancels a request.
func (s *session) sent(cancels bool) {
	if cancels {
		s.unsent.Add(-1)
		select {
		case s.heard <- struct{}{}:
		default:
		}
	}
}

func (s *session) Close() error {
	for limit := time.After(lastWord); s.unsent.Load() > 0; {
		select {
		case <-s.heard:
			continue
		case <-limit:
		}
		break
	}
	err := s.ClientSession.Close()
	if s.process != nil {
		err = s.process.Close()
	}
	s.stop()
	return err
}

func (s *session) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !slices.Contains(methods, method) {
		return nil, fmt.Errorf("there is no method %s in a session of this client", method)
	}
	var way way
	written := s.written.Load()
	within, stop := context.WithCancel(context.WithValue(ctx, wayKey{}, &way))
	defer stop()
	defer context.AfterFunc(s.broken, stop)()
	result, err := mcp.CallCustomMethod[*rawParams, *rawResult](within, s.ClientSession, ownPrefix+method, &rawParams{raw: params})
	if err != nil {
		if within.Err() != nil && !errors.Is(err, mcp.ErrConnectionClosed) {
			s.unsent.Add(1)
		}
		err = s.failed(ctx, err)
		if lost, is := errors.AsType[*client.TransportError](err); is {
			// A connection breaks if a request is given up while it is written.
			reached := way.sent.Load() || s.written.Load() > written // with a line of another request, as far as is known
			return nil, &client.TransportError{Sent: lost.Sent && reached, Status: cmp.Or(lost.Status, int(way.status.Load())), Err: unprefixed{lost.Err}}
		}
		return nil, err
	}
	return result.raw, nil
}

// wayKey is the key under which the context of a request has what becomes of it on its way.
type wayKey struct{}

// way is whether a request was sent, and the status by which the caller is refused.
type way struct {
	sent   atomic.Bool
	status atomic.Int64
}

// failed makes one of the client's errors of one of the SDK.
func (s *session) failed(ctx context.Context, err error) error {
	var refusal *jsonrpc.Error
	var lost *client.TransportError
	var network *net.OpError
	if wrong, is := errors.AsType[*client.ProtocolError](context.Cause(s.broken)); is {
		err = wrong
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, new(*client.ProtocolError)):
		return err
	case errors.As(err, &lost):
		return lost
	case errors.As(err, &network) && network.Op == "dial":
		return &client.TransportError{Err: network}
	case errors.As(err, &refusal) && !slices.Contains(own, refusal.Message):
		return &client.Error{Code: refusal.Code, Message: refusal.Message, Data: refusal.Data}
	case errors.Is(err, mcp.ErrConnectionClosed) && !slices.ContainsFunc(own, func(text string) bool { return strings.Contains(err.Error(), text) }):
		_, said, _ := strings.Cut(err.Error(), `": `) // what called it; the code was this or the next lower one
		return &client.Error{Code: -32003, Message: said}
	}
	return &client.TransportError{Sent: true, Err: err}
}

// own are the texts of the SDK's own errors, which it takes servers' for that have the same codes.
var own = []string{"client is closing", "server is closing", "rejected by transport"}

// methods are the requests that a session sends: each is a custom method of the SDK, as its own have types without tasks, with a
// prefix, which [rename] takes away.
var methods = []string{
	"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
	"resources/read", "tasks/get", "tasks/result", "tasks/cancel",
}

const ownPrefix = "mcpsaga/"

type rawParams struct {
	mcp.ParamsBase
	raw json.RawMessage
}

func (p *rawParams) MarshalJSON() ([]byte, error) { return p.raw, nil }

type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

func (r *rawResult) UnmarshalJSON(raw []byte) error {
	r.raw = bytes.Clone(raw)
	return nil
}

// rename gives the method of a message its own name, and reports whether it cancels a request.
func rename(message []byte) (_ []byte, cancels bool) {
	m, err := jsonrpc.DecodeMessage(message)
	request, is := m.(*jsonrpc.Request)
	if err != nil || !is {
		return message, false
	}
	name, own := strings.CutPrefix(request.Method, ownPrefix)
	if !own {
		return message, name == "notifications/cancelled"
	}
	request.Method = name
	if message, err = jsonrpc.EncodeMessage(request); err != nil {
		panic(err) // it was decoded
	}
	return append(message, '\n'), false
}

// unprefixed is an error of the SDK whose text names a method.
type unprefixed struct{ error }

func (e unprefixed) Error() string { return strings.Replace(e.error.Error(), ownPrefix, "", 1) }
func (e unprefixed) Unwrap() error { return e.error }
