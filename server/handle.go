package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/inturn"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// This file is the way in for requests that come by a transport of another library:
// package gosdk serves those of the official Go SDK through it.

// Request is an MCP request that did not come through one of this package's
// transports. Its receiver has also checked what a transport must:
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
	// Caller is who sent the request.
	Caller saga.Caller
	// Version is the revision of MCP that the client speaks. From 2026-07-28 on a
	// tool that asks ends the request with its questions, and _meta in Params says
	// what the client can do; before, the questions go to Peer, and Capabilities
	// says it. The methods of the saga proposal go by _meta alone: with it, requests
	// and results follow the rules of 2026-07-28.
	Version string
	// Capabilities is the ClientCapabilities object of the client's initialize.
	Capabilities json.RawMessage
	// Peer is the way to the client while the request is served. Without one the
	// client is neither asked nor sent anything.
	Peer Peer
}

// Peer is a client that can be reached while one of its requests is served. Its
// methods must be safe for concurrent use.
//
// If it also has a method Disconnect(retry time.Duration), that gives up the connection
// during a request, for the client to come back after retry (MCP 2025-11-25,
// basic/transports, polling: SEP-1699).
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

// Handle answers a request and returns its result. An error is always an [*Error],
// which can be sent to the client as it is.
func (s *Server) Handle(ctx context.Context, r *Request) (json.RawMessage, error) {
	ctx = durable.Patient(ctx)
	s.keeper.begin()
	result, rerr := s.handle(ctx, r)
	if rerr != nil {
		return nil, publicError(rerr)
	}
	return result, nil
}

func (s *Server) handle(ctx context.Context, r *Request) (json.RawMessage, *wire.Error) {
	params := jsontext.Value(r.Params)
	if excess := wire.Excess(params, wire.MaxNesting); excess != "" {
		return nil, wire.NewError(wire.CodeInvalidParams, excess)
	}
	if params != nil && (!jsonview.Valid(params) || params.Kind() != '{') {
		return nil, wire.WrongParam("")
	}
	m := &wire.Message{Method: r.Method, Params: params}
	if rerr := dialect.Contradiction(r.Header, m); rerr != nil {
		return nil, rerr
	}
	var version http.Header
	if r.Version != "" {
		version = http.Header{wire.VersionHeader: {r.Version}}
	}
	d := s.match(m, version)
	if d == nil {
		return nil, wire.NotFound()
	}
	who, err := checked(r.Caller)
	if err != nil {
		s.log.ErrorContext(ctx, "request refused", "reason", "not a caller", "error", err)
		return nil, dialect.Fault()
	}
	ctx = engine.WithCaller(ctx, who)
	x := &dialect.Exchange{
		Message: m, Header: r.Header, Principal: who.Binding(), Account: who.Binding(),
		Dialect: d, Client: &dialect.Introduction{Version: r.Version, Capabilities: r.Capabilities},
	}
	if r.Peer != nil {
		x.Way = peerWay{r.Peer, ctx}
	}
	return s.host.Dispatch(ctx, x, nil)
}

// Entries returns what a list method of MCP shows, such as tools/list: one object
// for each tool, prompt, resource or resource template, in the form of the newest
// revision. Do not change them.
func (s *Server) Entries(method string) (list []json.RawMessage) {
	for _, e := range s.host.Catalogue.Lists[method] {
		list = append(list, e.JSON)
	}
	return list
}

// Completes reports whether completion/complete has anything to suggest: whether a
// prompt or a resource has a [saga.Completer].
func (s *Server) Completes() bool { return s.host.Completes() }

// peerWay is the way to a [Peer].
type peerWay struct {
	Peer
	request context.Context
}

func (w peerWay) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	inturn.Take(ctx) // when a peer sends it, is not known here
	a, err := w.Ask(ctx, method, params)
	switch {
	case err == nil:
	case ctx.Err() == nil:
		err = &goneError{err}
	case w.request.Err() != nil:
		// Whatever the transport calls it, no client waits for the result.
		err = fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return a, err
}

func (w peerWay) Hangup(retry time.Duration) {
	if d, ok := w.Peer.(interface{ Disconnect(time.Duration) }); ok {
		d.Disconnect(retry)
	}
}

// KeepOpen implements [dialect.Way]: subscriptions are up to the transport.
func (peerWay) KeepOpen() *wire.Error { return wire.NotFound() }

// goneError says that a client is gone. What is sent, in case it is not, does not
// have the reason.
type goneError struct{ why error }

func (*goneError) Error() string     { return dialect.ErrSessionEnded.Error() }
func (e *goneError) Unwrap() []error { return []error{dialect.ErrSessionEnded, e.why} }

// Error is the error of a request that [Server.Handle] answered, and what [Hooks] refuse
// with. It can be sent to the client as it is.
type Error struct {
	// Code is a code of JSON-RPC or MCP. Default for hooks: -32600.
	Code int64
	// Message says what is wrong and what to do.
	Message string
	// Data is a JSON value, or nil.
	Data json.RawMessage

	retryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Message }
