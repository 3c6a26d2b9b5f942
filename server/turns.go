package server

import (
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// caller is what is known of whoever sent a request.
type caller struct {
	principal Principal
	// came is the HTTP request, for [Server.ownerOf]; nil on stdio.
	came     *http.Request
	features steps.Features
	// notify passes on what the tool tells meanwhile, or is nil.
	notify engine.Notifier
	// named is what the request's header says that a token is for, or empty.
	named string
	// trace is the trace context that the request came with, if there are hooks.
	trace turns.Trace
}

// info is what hooks learn of the caller's request.
func (c *caller) info(dialect string, m *wire.Message, header http.Header) *RequestInfo {
	info := &RequestInfo{Method: m.Method, Dialect: dialect, Principal: c.principal, Header: header}
	if c.came != nil {
		info.Remote, info.Header = c.came.RemoteAddr, c.came.Header
	}
	c.trace = traceOf(m.Params, info.Header)
	info.Trace = c.trace.String()
	return info
}

// request is what a turn needs to know of the caller.
func (c *caller) request(p turns.Policy, method string) turns.Request {
	return turns.Request{
		Policy: p, Method: method, Principal: c.principal.binding(),
		Client: c.features, Notifier: c.notify, Named: c.named, Trace: c.trace,
	}
}
