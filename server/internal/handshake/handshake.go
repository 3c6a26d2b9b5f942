// Package handshake is the dialect of MCP 2024-11-05 to 2025-11-25: a client introduces itself once, and the server asks it by requests
// of its own, whose answers resume a suspended saga. Its token does not leave the server. Package revision has what clients of each
// revision can read. The rest:
//
//   - handshake.go has the table of methods, tools.go what runs code of authors, peer.go what both sides have agreed on, and stdio, where
//     the connection is the session.
//   - Sessions over HTTP (http.go): a session is what its id says, and what is in memory of it (session.go) while there is more to know
//     (table.go). stream.go is what a connection carries, settings.go what a client has set, which all replicas know with a ledger.
//   - Calls with a ledger: the work is a task (taskcall.go). The stream is a view of its log, which a reader follows (reader.go) and asks
//     what the task asks (questions.go). Any replica finds the task by the request's number (requestkey.go): there the client answers,
//     cancels, and reads on (resume.go). Clients that know of tasks or resume tokens have two more ways to it (tasks.go, resume.go).
//   - Calls without a ledger: the process that has the call's stream asks the client itself (tools.go).
//
// The transport of 2024-11-05 with two HTTP endpoints is not served.
package handshake

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/apps"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

type handshake struct {
	*dialect.Host
	elsewhere *elsewhere.Router
	apps      *apps.Apps
	sessions  sessionTable
	// open are the calls under way in sessions over HTTP.
	open dialect.Limit
	// taskTools are the tools for clients that are offered tasks; nil without tasks.
	taskTools []dialect.Entry
}

// callsPer is how many calls may be under way for each session in memory, one of which may have [maxCalls].
const callsPer = 2

// New is of the type [dialect.New].
func New(h *dialect.Host) (dialect.Dialect, error) {
	d := &handshake{Host: h, elsewhere: elsewhere.New(h), apps: apps.New(h)}
	d.sessions.byID, d.sessions.owned, d.sessions.ends = make(map[string]*session), make(map[string]int), make(endings)
	d.open.What, d.open.Most, d.open.MostOwned = "calls", callsPer*h.Limits.MaxSessions, callsPer*h.Limits.MaxSessionsPerPrincipal
	if h.OffersTasks() {
		d.taskTools = taskTools(h)
	}
	h.Hub.OnTouched, h.Hub.OnCancelled = d.touched, d.cancelled
	return d, nil
}

var _ dialect.Sessions = (*handshake)(nil)

func (*handshake) Name() string {
	return "MCP " + revision.November2024.String() + " to " + revision.November2025.String()
}

// Match implements [dialect.Dialect]: what is no other dialect's is for the oldest.
func (*handshake) Match(*wire.Message, http.Header) bool { return true }

// Serve implements [dialect.Dialect], for clients that have introduced themselves to a transport not of ours: all others come by
// [dialect.Sessions].
func (d *handshake) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	if !d.method(x.Message).foreign {
		return nil, wire.NotFound()
	}
	capabilities := jsontext.Value(x.Client.Capabilities)
	if capabilities == nil || capabilities.IsValid() && capabilities.Kind() == '{' {
		if p, _, ok := d.newPeer(x.Client.Version, capabilities); ok {
			return d.serve(ctx, x, p, nil)
		}
	}
	return nil, wire.NewError(wire.CodeInvalidParams, "the client's capabilities are not of MCP's form")
}

// call is a request as its method sees it.
type call struct {
	*handshake
	*dialect.Exchange
	// peer is nil where a method needs no handshake and there was none.
	peer *peer
	// post is the way of a request of a session over HTTP, also if its client takes only the answer; nil for others.
	post *way
	// features are what the client can be asked for now.
	features steps.Features
}

// serving serves a request.
type serving = func(*call, context.Context) (json.RawMessage, error)

// method is a method of MCP.
type method struct {
	serve serving
	// lasting methods run code of authors: they may take long, send messages, and wait for tasks.
	lasting bool
	// open methods need no handshake.
	open bool
	// foreign methods also come by transports not of ours, which have lists and sessions of their own.
	foreign bool
	// lingering methods change the session for as long as it is in memory.
	lingering bool
	// tasks, ledger and skills methods are only there if there are such.
	tasks, ledger, skills bool
}

// methods are those that are served, but initialize. They are never changed.
var methods = map[string]method{
	"ping":                     {serve: (*call).ping, open: true},
	"logging/setLevel":         {serve: (*call).setLevel, lingering: true},
	"tools/list":               {serve: (*call).list, open: true, foreign: true},
	callMethod:                 {serve: (*call).toolsCall, lasting: true, foreign: true},
	"prompts/list":             {serve: (*call).list, foreign: true},
	"prompts/get":              {serve: (*call).promptsGet, lasting: true, foreign: true},
	"resources/list":           {serve: (*call).list, foreign: true},
	"resources/templates/list": {serve: (*call).list, foreign: true},
	"resources/read":           {serve: (*call).resourcesRead, lasting: true, foreign: true},
	"resources/subscribe":      {serve: (*call).subscribe, lingering: true},
	"resources/unsubscribe":    {serve: (*call).unsubscribe, lingering: true},
	"completion/complete":      {serve: (*call).complete, foreign: true},
	dialect.MethodSkills:       {serve: (*call).list, skills: true},
	dialect.MethodSkill:        {serve: (*call).skill, skills: true},
	"tasks/get":                {serve: (*call).taskGet, tasks: true},
	"tasks/list":               {serve: (*call).taskList, tasks: true},
	"tasks/cancel":             {serve: (*call).taskCancel, tasks: true},
	resultMethod:               {serve: (*call).taskResult, tasks: true, lasting: true},
	statusMethod:               {serve: (*call).requestStatus, ledger: true},
	resumeMethod:               {serve: (*call).resume, ledger: true, lasting: true},
}

// method returns the method of a message; the zero value if it is not served here.
func (d *handshake) method(m *wire.Message) method {
	found := methods[m.Method]
	if found.tasks && !d.OffersTasks() || found.ledger && d.Tasks == nil || found.skills && !d.HasSkills() {
		return method{}
	}
	return found
}

// serve answers a request other than initialize. p is nil before that; post is as in call.
func (d *handshake) serve(ctx context.Context, x *dialect.Exchange, p *peer, post *way) (json.RawMessage, *wire.Error) {
	m := x.Message
	method := d.method(m)
	if method.serve == nil {
		return nil, wire.NotFound()
	}
	token := jsontext.Value(jsonview.Get(m.Params, "_meta", "progressToken"))
	if p != nil && x.Way != nil && len(token) > wire.MaxID {
		return nil, wire.NewError(wire.CodeInvalidParams, wire.LongTokenText)
	}
	return d.answer(ctx, x, p, post, token, method.serve)
}

// answer has a request served whose progressToken is token.
func (d *handshake) answer(ctx context.Context, x *dialect.Exchange, p *peer, post *way, token jsontext.Value, serve serving) (json.RawMessage, *wire.Error) {
	x.Caller = d.caller(p)
	x.Caller.Tasks = x.Caller.Tasks && x.Client == nil // a foreign transport offers none
	c := &call{handshake: d, Exchange: x, peer: p, post: post}
	if p != nil && x.Way != nil {
		c.features = p.Features
		c.Notifier = &dialect.Notifier{Way: x.Way, Level: &p.level, Wordless: p.revision < revision.March2025}
		if wire.ValidID(token) {
			c.Notifier.Token = token
		}
		defer c.Notifier.Close()
	}
	result, err := serve(c, ctx)
	if err != nil {
		return nil, c.Translate(ctx, x.Message.Method, err)
	}
	return result, nil
}

// caller is what is known of a client, which is nil before the handshake.
func (d *handshake) caller(p *peer) *dialect.Caller {
	if p == nil {
		return new(dialect.Caller)
	}
	c := &dialect.Caller{Features: p.Features, Tasks: d.offersTasks(p), Apps: p.Apps, Trusted: p.Trusted}
	if p.session != nil {
		c.Session = p.session.agreed.session()
	}
	if d.Guest != nil {
		c.Declared, c.Asked = p.Guest, &p.asked
		c.Question = func(s steps.Step) (string, json.RawMessage, error) { return stepRequest(p.revision, s, rand.Text()) }
		c.Result = func(r *content.Result) ([]byte, error) { return wire.Marshal(p.revision.Result(r)) }
	}
	return c
}

// offersTasks reports whether a client is offered tasks.
func (d *handshake) offersTasks(p *peer) bool {
	return d.taskTools != nil && p != nil && p.revision >= revision.November2025
}

var emptyResult = json.RawMessage("{}")

func (c *call) ping(context.Context) (json.RawMessage, error) { return emptyResult, nil }

func (c *call) setLevel(ctx context.Context) (json.RawMessage, error) {
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
	return emptyResult, c.set(ctx, func(r *settings) (bool, error) {
		same := r.Level != nil && *r.Level == level
		r.Level = &level
		return !same, nil
	})
}

func (c *call) list(ctx context.Context) (json.RawMessage, error) {
	items := c.Catalogue.Lists[c.Message.Method]
	if c.Message.Method == "tools/list" {
		items = c.Catalogue.PlainTools
		switch {
		case c.offersTasks(c.peer):
			items = c.taskTools
		case c.peer != nil && !c.peer.revision.Structured():
			items = c.Catalogue.BareTools
		}
		items = c.elsewhere.Listed(items, c.Caller)
		if c.Client == nil { // a foreign transport has no guests
			items = c.GuestTools(items, c.Caller)
		}
		items = c.apps.Listed(items, c.Caller)
	}
	return closed(c.List(ctx, c.Message, items))
}

func (c *call) skill(ctx context.Context) (json.RawMessage, error) {
	return closed(c.Skill(ctx, c.Message.Params))
}

// closed adds the closing brace that a result lacks, unless there is an error instead.
func closed(open []byte, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return append(open, '}'), nil
}

func (c *call) subscribe(ctx context.Context) (json.RawMessage, error) {
	uri, rerr := c.param("uri", "resource")
	if rerr != nil {
		return nil, rerr
	}
	if !c.Serves(ctx, uri) {
		return nil, notFound(uri)
	}
	from := c.Hub.Position() // the subscriber gets what is published from now on
	return emptyResult, c.set(ctx, func(r *settings) (bool, error) { return subscribe(r, uri, from) })
}

func (c *call) unsubscribe(ctx context.Context) (json.RawMessage, error) {
	uri, rerr := c.param("uri", "resource")
	if rerr != nil {
		return nil, rerr
	}
	return emptyResult, c.set(ctx, func(r *settings) (bool, error) {
		i := r.index(uri)
		if i >= 0 {
			r.URIs = slices.Concat(r.URIs[:i], r.URIs[i+1:])
		}
		return i >= 0, nil
	})
}

// param reads the parameter that names what a request is about.
func (c *call) param(name, names string) (string, *wire.Error) {
	v := jsontext.Value(jsonview.Get(c.Message.Params, name))
	if k := v.Kind(); k == jsontext.KindInvalid || k == 'n' {
		return "", wire.NewError(wire.CodeInvalidParams, "params."+name+" is missing: it names the "+names)
	}
	text, ok := jsonview.String(v)
	if !ok {
		return "", wire.WrongParam("/" + name)
	}
	return text, nil
}

func (c *call) complete(ctx context.Context) (json.RawMessage, error) {
	return c.Complete(ctx, c.Message.Params)
}

// Revisions are the revisions of MCP that the dialect speaks, newest first.
func Revisions() []string { return revision.Versions() }
