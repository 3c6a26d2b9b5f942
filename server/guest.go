package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// This file is the way in for requests that come by a transport of somebody else:
// package gosdk serves those of the official Go SDK through it.

// Request is an MCP request that did not come through one of this package's
// transports. Whoever has received it has also checked what a transport must:
// origin, credentials, headers, sizes.
type Request struct {
	// Method is tools/call, prompts/get, resources/read or completion/complete of
	// MCP, or tools/callSaga, tools/resumeSaga or tools/cancelSaga. What lists and
	// sessions need besides is up to the transport.
	Method string
	// Params are the request's parameters, a JSON object, or nil.
	Params json.RawMessage
	// Header is that of the HTTP request, or nil. What Mcp-Method and Mcp-Name say is
	// compared with the request and its token, as a gateway may have gone by it.
	Header http.Header
	// Principal is who sent the request.
	Principal Principal
	// Version is the revision of MCP that the client speaks. From 2026-07-28 on a
	// tool that asks ends the request with its questions, and _meta in Params says
	// what the client can do; before, the questions go to Peer, and Capabilities
	// says it. The methods of the saga proposal go by _meta alone: with it, requests
	// and results follow the rules of 2026-07-28.
	Version string
	// Capabilities is the ClientCapabilities object of the client's initialize.
	Capabilities json.RawMessage
	// Peer is the way to the client while the request is served. Without one the
	// client is neither asked nor told anything.
	Peer Peer
}

// Peer is a client that can be reached while one of its requests is served. Its
// methods must be safe for concurrent use.
type Peer interface {
	// Notify sends a notification that belongs to the request: of progress, of
	// something to log, or of a page that the user is done with.
	Notify(method string, params json.RawMessage)
	// Ask sends elicitation/create, sampling/createMessage or roots/list and waits
	// for the answer. An error of the client's is an answer. Ask fails when ctx has
	// ended, with [context.Cause], or when the client is gone: then the saga is
	// undone. ctx has the values of [Server.Handle]'s. The answer's StepID is not
	// read.
	Ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error)
}

// PeerDisconnecter is a [Peer] whose connection can be given up during a request,
// for the client to come back after retry (MCP 2025-11-25, basic/transports,
// polling: SEP-1699).
type PeerDisconnecter interface {
	// Disconnect gives the connection up.
	Disconnect(retry time.Duration)
}

// guestMethods are the methods of MCP that a guest may send.
var guestMethods = []string{"tools/call", "prompts/get", "resources/read", "completion/complete"}

// Handle answers a request and returns its result. An error is always an [*Error],
// which can be sent to the client as it is.
func (s *Server) Handle(ctx context.Context, r *Request) (json.RawMessage, error) {
	result, rerr := s.handle(ctx, r)
	if rerr != nil {
		return nil, publicError(rerr)
	}
	return result, nil
}

func (s *Server) handle(ctx context.Context, r *Request) (json.RawMessage, *wire.Error) {
	params := jsontext.Value(r.Params)
	if jsonview.Deeper(params, wire.MaxNesting) {
		return nil, wire.NewError(wire.CodeInvalidParams, wire.DeepText)
	}
	if params != nil && (!params.IsValid() || params.Kind() != '{') {
		return nil, wire.WrongParam("")
	}
	m := &wire.Message{Method: r.Method, Params: params}
	c := caller{principal: r.Principal}
	if no := contradiction(r.Header, m); no != nil {
		return nil, no
	}
	if s.methods[r.Method] != nil {
		c.named, _, _ = wire.DecodedHeader(r.Header, wire.NameHeader)
	}
	switch {
	case s.methods[r.Method] != nil && eraOf(m, nil) == eraSaga:
		return s.serveSagaMethod(ctx, c, m, nil, r.Header)
	case s.methods[r.Method] != nil:
		return s.guestStateless(ctx, c, r, m)
	case !slices.Contains(guestMethods, r.Method):
		return nil, wire.NewError(wire.CodeMethodNotFound, "method not found")
	case r.Version >= statelessVersion:
		return s.guestStateless(ctx, c, r, m)
	}
	return s.guestHandshake(ctx, c, r, m)
}

// Entries returns what a list method of MCP shows, such as tools/list: one object
// for each tool, prompt, resource or resource template, in the form of the newest
// revision. Do not change them.
func (s *Server) Entries(method string) []json.RawMessage {
	switch method {
	case "tools/list":
		return s.catalog.tools
	case "prompts/list":
		return s.catalog.prompts
	case "resources/list":
		return s.catalog.resources
	case "resources/templates/list":
		return s.catalog.templates
	}
	return nil
}

// Completes reports whether completion/complete has anything to suggest: whether a
// prompt or a resource has a [saga.Completer].
func (s *Server) Completes() bool { return s.completes() }

func (s *Server) guestStateless(ctx context.Context, c caller, r *Request, m *wire.Message) (json.RawMessage, *wire.Error) {
	d := &s.stateless
	request, no := d.admit(c, m, nil)
	if no != nil {
		return nil, no
	}
	if request.served.saga {
		request.header = r.Header // transports know which arguments it repeats of MCP's own methods only
	}
	if r.Peer != nil {
		n := request.notifier(func(message []byte) {
			method, _ := jsonview.String(jsonview.Get(message, "method"))
			r.Peer.Notify(method, json.RawMessage(jsonview.Get(message, "params")))
		})
		defer n.close()
	}
	result, no := d.run(ctx, request, r.Header)
	if no != nil {
		return nil, no
	}
	return result, nil
}

func (s *Server) guestHandshake(ctx context.Context, c caller, r *Request, m *wire.Message) (json.RawMessage, *wire.Error) {
	d := &s.handshake
	p, fail := d.guest(r)
	if fail != nil {
		return nil, fail
	}
	defer p.silence(nil)
	var to exchange
	if r.Peer != nil {
		to = guestExchange{r.Peer, ctx}
	}
	result, fail := d.serve(ctx, c, p, to, m, r.Header)
	if fail != nil {
		return nil, fail
	}
	return result, nil
}

// guest is the peer of a session that somebody else keeps.
func (d *handshake) guest(r *Request) (*peer, *wire.Error) {
	var capabilities clientCapabilities
	if declared := jsontext.Value(r.Capabilities); declared != nil && (!declared.IsValid() || declared.Kind() != '{' || !capabilities.read(declared)) {
		return nil, wire.NewError(wire.CodeInvalidParams, "the client's capabilities are not of MCP's form")
	}
	p := &peer{revision: negotiate(r.Version)}
	p.features = p.revision.features(&capabilities)
	p.answering, p.silence = context.WithCancelCause(d.guests.context())
	return p, nil
}

// guests end the wait for the answers of all guests.
type guests struct {
	once sync.Once
	ctx  context.Context
	end  context.CancelCauseFunc
}

func (g *guests) context() context.Context {
	g.once.Do(func() { g.ctx, g.end = context.WithCancelCause(context.Background()) })
	return g.ctx
}

func (g *guests) stop() {
	g.context()
	g.end(errStopping)
}

// goneError is that a client is gone. What is sent, in case it is not, does not
// have the reason.
type goneError struct{ why error }

func (*goneError) Error() string     { return errSessionEnded.Error() }
func (e *goneError) Unwrap() []error { return []error{errSessionEnded, e.why} }

// guestExchange is an exchange by way of a Peer.
type guestExchange struct {
	Peer
	request context.Context
}

func (x guestExchange) notify(method string, params json.RawMessage) { x.Notify(method, params) }

func (x guestExchange) ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	a, err := x.Ask(ctx, method, params)
	switch {
	case err == nil:
	case ctx.Err() == nil:
		err = &goneError{err}
	case x.request.Err() != nil:
		// Whatever the transport calls it, nobody waits for the result.
		err = fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return a, err
}

func (x guestExchange) disconnect(retry retryAfter) {
	if d, ok := x.Peer.(PeerDisconnecter); ok {
		d.Disconnect(retry)
	}
}
