package server

import (
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// legacyCall is a request of the handshake era as its method sees it.
type legacyCall struct {
	*handshake
	caller caller
	// peer is nil where a method needs no handshake and there was none.
	peer *peer
	// to is nil if nothing but the response can be sent.
	to     exchange
	params jsontext.Value
}

// legacyMethod is a method of the handshake era.
type legacyMethod struct {
	serve func(*legacyCall, context.Context) (json.RawMessage, error)
	// lasting methods run code of authors: they may take long, and send requests
	// and notifications.
	lasting bool
	// open methods need no handshake.
	open bool
}

// handshakeMethods are the methods of the handshake era but initialize. It is
// never changed.
var handshakeMethods = map[string]legacyMethod{
	"ping":                     {serve: (*legacyCall).ping, open: true},
	"logging/setLevel":         {serve: (*legacyCall).setLevel},
	"tools/list":               {serve: (*legacyCall).toolsList, open: true},
	"tools/call":               {serve: (*legacyCall).toolsCall, lasting: true},
	"prompts/list":             {serve: (*legacyCall).promptsList},
	"prompts/get":              {serve: (*legacyCall).promptsGet, lasting: true},
	"resources/list":           {serve: (*legacyCall).resourcesList},
	"resources/templates/list": {serve: (*legacyCall).templatesList},
	"resources/read":           {serve: (*legacyCall).resourcesRead, lasting: true},
	"resources/subscribe":      {serve: (*legacyCall).subscribe},
	"resources/unsubscribe":    {serve: (*legacyCall).unsubscribe},
	"completion/complete":      {serve: (*legacyCall).complete},
}

// handle handles a request other than initialize and returns the response.
func (d *handshake) handle(ctx context.Context, c caller, p *peer, to exchange, m *message) []byte {
	result, fail := d.serve(ctx, c, p, to, m)
	if fail != nil {
		return appendResponse(nil, m.id, nil, fail)
	}
	return appendResponse(make([]byte, 0, len(result)+64), m.id, result, nil)
}

// serve handles a request other than initialize.
func (d *handshake) serve(ctx context.Context, c caller, p *peer, to exchange, m *message) (json.RawMessage, *jsonrpc2.Error) {
	method := handshakeMethods[m.method]
	if method.serve == nil {
		return nil, rpcError(jsonrpc2.CodeMethodNotFound, "method not found")
	}
	call := &legacyCall{handshake: d, caller: c, peer: p, to: to, params: m.params}
	call.caller.purpose = purposeHeld
	if to != nil {
		call.caller.features = p.features
		t, fail := newTeller(to, p, m.params)
		if fail != nil {
			return nil, fail
		}
		defer t.end()
		call.caller.notify = t
	}
	result, err := method.serve(call, ctx)
	if err != nil {
		return nil, d.legacyError(ctx, m.method, err)
	}
	return result, nil
}

var emptyResult = json.RawMessage("{}")

func (c *legacyCall) ping(context.Context) (json.RawMessage, error) { return emptyResult, nil }

func (c *legacyCall) setLevel(context.Context) (json.RawMessage, error) {
	var p struct {
		Level string `json:"level"`
	}
	if fail := decodeParams(c.params, &p); fail != nil {
		return nil, fail
	}
	level, ok := engine.ParseLevel(p.Level)
	if !ok {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "params.level is not a level of log messages")
	}
	c.peer.level.Store(int32(level))
	return emptyResult, nil
}

// list answers a method that lists something, by pages.
func (c *legacyCall) list(name string, all []json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if fail := decodeParams(c.params, &p); fail != nil {
		return nil, fail
	}
	items, next, fail := c.catalog.page(all, p.Cursor)
	if fail != nil {
		return nil, fail
	}
	return append(appendList(name, items, next), '}'), nil
}

func (c *legacyCall) toolsList(context.Context) (json.RawMessage, error) {
	if c.peer != nil && !c.peer.revision.structured() {
		return c.list("tools", c.catalog.bareTools)
	}
	return c.list("tools", c.catalog.plainTools)
}

func (c *legacyCall) promptsList(context.Context) (json.RawMessage, error) {
	return c.list("prompts", c.catalog.prompts)
}

func (c *legacyCall) resourcesList(context.Context) (json.RawMessage, error) {
	return c.list("resources", c.catalog.resources)
}

func (c *legacyCall) templatesList(context.Context) (json.RawMessage, error) {
	return c.list("resourceTemplates", c.catalog.templates)
}

func (c *legacyCall) subscribe(context.Context) (json.RawMessage, error) {
	uri, fail := c.uri()
	switch {
	case fail != nil:
		return nil, fail
	case !c.tools.Serves(uri):
		return nil, notFound(uri)
	case !c.peer.subscribe(uri):
		return nil, rpcError(jsonrpc2.CodeInvalidRequest, "there are too many subscriptions; end some")
	}
	return emptyResult, nil
}

func (c *legacyCall) unsubscribe(context.Context) (json.RawMessage, error) {
	uri, fail := c.uri()
	if fail != nil {
		return nil, fail
	}
	c.peer.unsubscribe(uri)
	return emptyResult, nil
}

// uri reads the parameters of methods that name a resource.
func (c *legacyCall) uri() (string, *jsonrpc2.Error) {
	var p struct {
		URI *string `json:"uri"`
	}
	if fail := decodeParams(c.params, &p); fail != nil {
		return "", fail
	}
	if p.URI == nil {
		return "", rpcError(jsonrpc2.CodeInvalidParams, "params.uri is missing: it names the resource")
	}
	return *p.URI, nil
}
