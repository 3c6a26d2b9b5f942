//lint:file-ignore SA1019 What the SDK calls deprecated is what these revisions have.

// Package legacy has package client speak to servers of MCP 2024-11-05 to 2025-11-25,
// which keep a session for each client:
//
//	c := client.New(&client.HTTP{URL: address}, client.Options{Sessions: legacy.Open})
//
// The sessions are those of the official Go SDK, over Streamable HTTP, over the older
// transport with two addresses (HTTP with SSE), and over the standard input and output of
// a process. They are in a package of their own so that only who imports it links the SDK.
//
// A call in a session cannot be stopped and continued later, and ends with the
// session. The SDK reads messages into types of its own: the fields of a form come in the
// order of their names, and a result with a block of an unknown type is an error.
package legacy

import (
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
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/client"
)

// Open opens a session. It is for [client.Options].Sessions. limit is for the opening only.
func Open(limit context.Context, config client.SessionConfig) (_ client.Session, err error) {
	s := &session{}
	// What is opened lives longer than limit, of which the SDK knows nothing.
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.WithoutCancel(limit))
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
			switch method {
			case "sampling/createMessage":
				return answer[mcp.CreateMessageWithToolsResult](ctx, config, method, r.GetParams())
			case "roots/list":
				return answer[mcp.ListRootsResult](ctx, config, method, r.GetParams())
			}
			return next(ctx, method, r)
		}
	})
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
		if err := connect(&mcp.IOTransport{Reader: process, Writer: writing{process}, MaxLineLength: t.MaxLine}); err != nil {
			_ = process.Close()
			return nil, err
		}
	case *client.HTTP:
		sender, err := t.Client()
		if err != nil {
			return nil, err
		}
		w := &watcher{inner: sender.Transport}
		sender.Transport = w
		err = connect(&mcp.StreamableClientTransport{Endpoint: t.URL, HTTPClient: sender})
		if err == nil {
			break
		}
		switch status := int(w.status.Load()); status {
		case http.StatusUnauthorized, http.StatusForbidden:
			return nil, &client.TransportError{Sent: true, Status: status, Err: err}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
			// What servers of 2024-11-05 say to a POST.
			w.status.Store(0)
			older := connect(&mcp.SSEClientTransport{Endpoint: t.URL, HTTPClient: sender})
			if older == nil {
				return s, nil
			}
			if status != http.StatusBadRequest && !errors.As(err, new(*jsonrpc.Error)) {
				return nil, notThere(t.URL, status, int(w.status.Load()), older)
			}
		}
		return nil, err
	default:
		return nil, fmt.Errorf("there are no sessions over a %T", t)
	}
	return s, nil
}

func capabilities(config client.SessionConfig) *mcp.ClientCapabilities {
	c := &mcp.ClientCapabilities{}
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
	return result, nil
}

// writing closes nothing: the process is ended as a whole, by its session.
type writing struct{ io.Writer }

func (writing) Close() error { return nil }

// notThere is why nothing is spoken at an address whose answer to a POST had that status. Then the
// transport of 2024-11-05 was tried, which failed with err after a response with the status get; 0
// if there was none.
func notThere(address string, status, get int, err error) error {
	switch {
	case get == http.StatusUnauthorized, get == http.StatusForbidden:
		return &client.TransportError{Sent: true, Status: get, Err: err}
	case get == 0, get == http.StatusAccepted, get == http.StatusTooManyRequests, get >= http.StatusInternalServerError, errors.As(err, new(*jsonrpc.Error)):
		return err // there may well be a server
	}
	if u, err := url.Parse(address); err == nil {
		address = u.Redacted()
	}
	return &client.TransportError{
		Sent: true, Status: status,
		Err: fmt.Errorf("%s is not an MCP endpoint; check the path of the URL, which most servers have at /mcp", address),
	}
}

// watcher notes the status of the last response, and has streams be asked for again that
// cannot be had just now.
type watcher struct {
	inner  http.RoundTripper
	status atomic.Int64
}

// RoundTrip implements [http.RoundTripper].
func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.status.Store(int64(response.StatusCode))
	// The SDK gives its session up if it comes back to a stream and is refused, whatever for; it
	// comes again if there is no answer.
	if r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") != "" {
		switch response.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
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
	// cancelled is when a request was last given up, in Unix nanoseconds.
	cancelled atomic.Int64
}

// lastWord is how long a server has to hear that a request was given up: the SDK does
// so behind its callers' backs, and closing the session would overtake it.
const lastWord = 200 * time.Millisecond

// Close implements [client.Session].
func (s *session) Close() error {
	time.Sleep(lastWord - time.Since(time.Unix(0, s.cancelled.Load())))
	err := s.ClientSession.Close()
	if s.process != nil {
		err = s.process.Close()
	}
	s.stop()
	return err
}

// Request implements [client.Session].
func (s *session) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	send, known := methods[method]
	if !known {
		return nil, fmt.Errorf("there is no method %s in a session of this client", method)
	}
	result, err := send(ctx, s.ClientSession, params)
	if err != nil {
		if ctx.Err() != nil {
			s.cancelled.Store(time.Now().UnixNano())
		}
		return nil, s.failed(ctx, err)
	}
	return json.Marshal(result)
}

// failed makes one of the client's errors of one of the SDK.
func (s *session) failed(ctx context.Context, err error) error {
	var refusal *jsonrpc.Error
	var lost *client.TransportError
	var network *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, new(*client.ProtocolError)):
		return err
	case errors.As(err, &lost):
		return lost
	case errors.As(err, &network) && network.Op == "dial":
		return &client.TransportError{Err: network}
	case errors.As(err, &refusal) && (refusal.Code < firstOwn || refusal.Code > lastOwn):
		return &client.Error{Code: refusal.Code, Message: refusal.Message, Data: refusal.Data}
	}
	return &client.TransportError{Sent: true, Err: err}
}

// The SDK has codes for connections that it has closed itself.
const firstOwn, lastOwn = -32005, -32003

// methods are the requests that the SDK can send.
var methods = map[string]func(context.Context, *mcp.ClientSession, json.RawMessage) (any, error){
	"tools/list":               request((*mcp.ClientSession).ListTools),
	"tools/call":               request((*mcp.ClientSession).CallTool),
	"prompts/list":             request((*mcp.ClientSession).ListPrompts),
	"prompts/get":              request((*mcp.ClientSession).GetPrompt),
	"resources/list":           request((*mcp.ClientSession).ListResources),
	"resources/templates/list": request((*mcp.ClientSession).ListResourceTemplates),
	"resources/read":           request((*mcp.ClientSession).ReadResource),
}

// request is a method of the SDK that takes its parameters, and returns its result, as JSON.
func request[P, R any](send func(*mcp.ClientSession, context.Context, *P) (*R, error)) func(context.Context, *mcp.ClientSession, json.RawMessage) (any, error) {
	return func(ctx context.Context, s *mcp.ClientSession, raw json.RawMessage) (any, error) {
		params := new(P)
		if err := json.Unmarshal(raw, params); err != nil {
			return nil, err
		}
		result, err := send(s, ctx, params)
		if err != nil {
			return nil, err
		}
		return result, nil
	}
}
