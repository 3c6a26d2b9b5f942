package handshake

import (
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// call is a request as its method sees it.
type call struct {
	*handshake
	*dialect.Exchange
	// peer is nil where a method needs no handshake and there was none.
	peer *peer
	// features are what the client can be asked for now.
	features steps.Features
	notifier *dialect.Notifier // or nil
}

// method is a method of the handshake era.
type method struct {
	serve func(*call, context.Context) (json.RawMessage, error)
	// lasting methods run code of authors: they may take long, and send requests
	// and notifications.
	lasting bool
	// open methods need no handshake.
	open bool
	// foreign methods can also come by transports of somebody else's, which have lists
	// and sessions of their own.
	foreign bool
}

// methods are the methods of the handshake era but initialize. It is
// never changed.
var methods = map[string]method{
	"ping":                     {serve: (*call).ping, open: true},
	"logging/setLevel":         {serve: (*call).setLevel},
	"tools/list":               {serve: (*call).toolsList, open: true},
	"tools/call":               {serve: (*call).toolsCall, lasting: true, foreign: true},
	"prompts/list":             {serve: (*call).promptsList},
	"prompts/get":              {serve: (*call).promptsGet, lasting: true, foreign: true},
	"resources/list":           {serve: (*call).resourcesList},
	"resources/templates/list": {serve: (*call).templatesList},
	"resources/read":           {serve: (*call).resourcesRead, lasting: true, foreign: true},
	"resources/subscribe":      {serve: (*call).subscribe},
	"resources/unsubscribe":    {serve: (*call).unsubscribe},
	"completion/complete":      {serve: (*call).complete, foreign: true},
}

// known serves the requests of a client, which is nil before initialize.
type known struct {
	*handshake
	peer *peer
}

// Serve implements [dialect.Handler].
func (k *known) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	return k.serve(ctx, x, k.peer)
}

// serve answers a request other than initialize. p is nil before that.
func (d *handshake) serve(ctx context.Context, x *dialect.Exchange, p *peer) (json.RawMessage, *wire.Error) {
	m := x.Message
	method := methods[m.Method]
	if method.serve == nil {
		return nil, wire.NotFound()
	}
	c := &call{handshake: d, Exchange: x, peer: p}
	if p != nil && x.Way != nil {
		c.features = p.features
		c.notifier = &dialect.Notifier{Way: x.Way, Level: &p.level, Wordless: p.revision < revision2025March}
		token := jsontext.Value(jsonview.Get(jsonview.Get(m.Params, "_meta"), "progressToken"))
		if len(token) > wire.MaxID {
			return nil, wire.NewError(wire.CodeInvalidParams, wire.LongTokenText)
		}
		if wire.ValidID(token) {
			c.notifier.Token = token
		}
		defer c.notifier.Close()
	}
	result, err := method.serve(c, ctx)
	if err != nil {
		return nil, d.translate(ctx, m.Method, err)
	}
	return result, nil
}

var emptyResult = json.RawMessage("{}")

func (c *call) ping(context.Context) (json.RawMessage, error) { return emptyResult, nil }

func (c *call) setLevel(context.Context) (json.RawMessage, error) {
	var p struct {
		Level string `json:"level"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	level, ok := engine.ParseLevel(p.Level)
	if !ok {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.level is not a level of log messages")
	}
	c.peer.level.Set(level)
	return emptyResult, nil
}

// list answers a method that lists something, by pages.
func (c *call) list(name string, all []json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	items, next, rerr := c.Catalogue.Page(all, p.Cursor)
	if rerr != nil {
		return nil, rerr
	}
	return append(dialect.AppendList(name, items, next), '}'), nil
}

func (c *call) toolsList(context.Context) (json.RawMessage, error) {
	if c.peer != nil && !c.peer.revision.structured() {
		return c.list("tools", c.Catalogue.BareTools)
	}
	return c.list("tools", c.Catalogue.PlainTools)
}

func (c *call) promptsList(context.Context) (json.RawMessage, error) {
	return c.list("prompts", c.Catalogue.Prompts)
}

func (c *call) resourcesList(context.Context) (json.RawMessage, error) {
	return c.list("resources", c.Catalogue.Resources)
}

func (c *call) templatesList(context.Context) (json.RawMessage, error) {
	return c.list("resourceTemplates", c.Catalogue.Templates)
}

func (c *call) subscribe(context.Context) (json.RawMessage, error) {
	uri, rerr := c.uri()
	switch {
	case rerr != nil:
		return nil, rerr
	case !c.Tools.Serves(uri):
		return nil, notFound(uri)
	case !c.peer.subscribe(uri):
		return nil, wire.NewError(wire.CodeInvalidRequest, "there are too many subscriptions; end some")
	}
	return emptyResult, nil
}

func (c *call) unsubscribe(context.Context) (json.RawMessage, error) {
	uri, rerr := c.uri()
	if rerr != nil {
		return nil, rerr
	}
	c.peer.unsubscribe(uri)
	return emptyResult, nil
}

// uri reads the parameters of methods that name a resource.
func (c *call) uri() (string, *wire.Error) {
	var p struct {
		URI *string `json:"uri"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return "", rerr
	}
	if p.URI == nil {
		return "", wire.NewError(wire.CodeInvalidParams, "params.uri is missing: it names the resource")
	}
	return *p.URI, nil
}

func (c *call) complete(ctx context.Context) (json.RawMessage, error) {
	return c.Complete(ctx, c.Message.Params)
}
