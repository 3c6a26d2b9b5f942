package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// legacyCall is a request of the handshake era as its method sees it.
type legacyCall struct {
	*handshake
	caller caller
	// peer is nil where a method needs no handshake and there was none.
	peer *peer
	// to is nil if nothing but the response can be sent.
	to     exchange
	method string
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
func (d *handshake) handle(ctx context.Context, c caller, p *peer, to exchange, m *wire.Message) []byte {
	result, fail := d.serve(ctx, c, p, to, m, nil)
	if fail != nil {
		return wire.AppendResponse(nil, m.ID, nil, fail)
	}
	return wire.AppendResponse(make([]byte, 0, len(result)+64), m.ID, result, nil)
}

// serve handles a request other than initialize.
func (d *handshake) serve(ctx context.Context, c caller, p *peer, to exchange, m *wire.Message, header http.Header) (json.RawMessage, *wire.Error) {
	if d.hooks == nil {
		return d.serveMethod(ctx, c, p, to, m)
	}
	hooked := c
	info := hooked.info("MCP with a handshake", m, header)
	var result json.RawMessage
	rerr := d.hooks.request(ctx, info, func(ctx context.Context) (rerr *wire.Error) {
		result, rerr = d.serveMethod(ctx, hooked, p, to, m)
		return rerr
	})
	return result, rerr
}

func (d *handshake) serveMethod(ctx context.Context, c caller, p *peer, to exchange, m *wire.Message) (json.RawMessage, *wire.Error) {
	method := handshakeMethods[m.Method]
	if method.serve == nil {
		return nil, wire.NewError(wire.CodeMethodNotFound, "method not found")
	}
	call := &legacyCall{handshake: d, caller: c, peer: p, to: to, method: m.Method, params: m.Params}
	if to != nil {
		call.caller.features = p.features
		t, fail := newTeller(to, p, m.Params)
		if fail != nil {
			return nil, fail
		}
		defer t.end()
		call.caller.notify = t
	}
	result, err := method.serve(call, ctx)
	if err != nil {
		return nil, d.legacyError(ctx, m.Method, err)
	}
	return result, nil
}

var emptyResult = json.RawMessage("{}")

func (c *legacyCall) ping(context.Context) (json.RawMessage, error) { return emptyResult, nil }

func (c *legacyCall) setLevel(context.Context) (json.RawMessage, error) {
	var p struct {
		Level string `json:"level"`
	}
	if fail := wire.DecodeParams(c.params, &p); fail != nil {
		return nil, fail
	}
	level, ok := engine.ParseLevel(p.Level)
	if !ok {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.level is not a level of log messages")
	}
	c.peer.level.Store(int32(level))
	return emptyResult, nil
}

// list answers a method that lists something, by pages.
func (c *legacyCall) list(name string, all []json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if fail := wire.DecodeParams(c.params, &p); fail != nil {
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
		return nil, wire.NewError(wire.CodeInvalidRequest, "there are too many subscriptions; end some")
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
func (c *legacyCall) uri() (string, *wire.Error) {
	var p struct {
		URI *string `json:"uri"`
	}
	if fail := wire.DecodeParams(c.params, &p); fail != nil {
		return "", fail
	}
	if p.URI == nil {
		return "", wire.NewError(wire.CodeInvalidParams, "params.uri is missing: it names the resource")
	}
	return *p.URI, nil
}
