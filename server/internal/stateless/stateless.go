// Package stateless is the dialect of MCP 2026-07-28: requests that say everything about
// themselves, questions to the client as results (multi round-trip requests), no
// handshake and no requests from the server.
//
// validate.go says what a request must be, and params.go which arguments HTTP headers
// repeat; asking.go is the methods that may ask, tasks.go the tasks extension, and listen.go
// subscriptions.
package stateless

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/paramheader"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/apps"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// version is the revision that the dialect speaks.
const version = "2026-07-28"

// Revisions are the revisions of MCP that the dialect speaks.
func Revisions() []string { return []string{version} }

// versionKey is where a request names its revision; that it is there is what makes it
// one of this dialect (MCP 2026-07-28, basic/versioning).
const versionKey = "io.modelcontextprotocol/protocolVersion"

type stateless struct {
	*dialect.Host
	elsewhere *elsewhere.Router
	apps      *apps.Apps
	// table has the methods that there are, given what the server offers.
	table map[string]method
	// info is this server's Implementation, which is in every result.
	info []byte
	// params are the arguments that HTTP headers repeat, by tool; most have none.
	params  map[string][]paramheader.Param
	streams dialect.Limit
}

// method is one method of the dialect.
type method struct {
	// name is the member of params that the header Mcp-Name repeats, or empty.
	name   string
	handle func(context.Context, *request) ([]byte, error)
	// saga methods are not MCP's own but those of the saga proposal.
	saga bool
	// tasks methods are those of the tasks extension, which the client has to have declared.
	tasks bool
	// foreign methods can also come by transports not of ours, which have lists
	// and subscriptions of their own.
	foreign bool
}

// New is of the type [dialect.New]. It fails if a tool's schema has annotations that are
// not allowed.
func New(h *dialect.Host) (dialect.Dialect, error) {
	d := &stateless{Host: h, elsewhere: elsewhere.New(h), apps: apps.New(h), params: make(map[string][]paramheader.Param)}
	d.streams.What, d.streams.Most, d.streams.MostOwned = "subscriptions", h.Limits.MaxStreams, h.Limits.MaxStreamsPerPrincipal
	var err error
	if d.info, err = wire.Marshal(h.Info); err != nil {
		return nil, err
	}
	var wrong []error
	for _, t := range h.Tools.Of(engine.KindTool) {
		found, err := paramheader.Find(t.InputSchema)
		if err != nil {
			wrong = append(wrong, &saga.DefinitionError{Tool: t.Name, Problem: "the input schema has an " + paramheader.Keyword + " that is not allowed", Err: err})
		}
		if found != nil {
			d.params[t.Name] = found
		}
	}
	d.table = d.methods()
	return d, errors.Join(wrong...)
}

var _ dialect.Strict = (*stateless)(nil)

func (*stateless) Name() string { return "MCP " + version }

func (*stateless) Strict() {}

func (d *stateless) Match(m *wire.Message, h http.Header) bool {
	// Most requests of the other dialects do not hold the key anywhere. Of those that do, some write its slash as \/.
	if bytes.Contains(m.Params, []byte("protocolVersion")) && jsonview.Get(jsonview.Get(m.Params, "_meta"), versionKey) != nil {
		return true
	}
	// The version header names one of its revisions, which is every one that is not known
	// to be of another.
	v := h.Values(wire.VersionHeader)
	return len(v) > 0 && (v[0] == version || !slices.Contains(d.Revisions, v[0])) && !d.table[m.Method].saga
}

func (d *stateless) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	r, rerr := d.validate(x)
	if rerr != nil {
		return nil, rerr
	}
	if r.Notifier != nil {
		defer r.Notifier.Close()
	}
	result, err := r.served.handle(ctx, r)
	if err != nil {
		return nil, d.translate(ctx, r, err)
	}
	return result, nil
}

// methods are the methods that are served. What is not offered is not found
// (MCP 2026-07-28, server/discover: capabilities).
func (d *stateless) methods() map[string]method {
	table := map[string]method{
		"server/discover": {handle: d.discover},
		listenMethod:      {handle: d.listen},
	}
	for _, name := range []string{dialect.MethodCall, dialect.MethodResume, dialect.MethodCancel} {
		table[name] = method{saga: true, foreign: true, handle: d.serveSaga}
	}
	if len(d.Tools.Of(engine.KindTool)) > 0 {
		table["tools/list"] = method{handle: d.list, foreign: true}
		table["tools/call"] = method{name: "name", handle: d.callTool, foreign: true}
	}
	if len(d.Tools.Of(engine.KindPrompt)) > 0 {
		table["prompts/list"] = method{handle: d.list, foreign: true}
		table["prompts/get"] = method{name: "name", handle: d.getPrompt, foreign: true}
	}
	if d.Questions.Apps || len(d.Tools.Of(engine.KindResource)) > 0 {
		table["resources/list"] = method{handle: d.list, foreign: true}
		table["resources/templates/list"] = method{handle: d.list, foreign: true}
		table["resources/read"] = method{name: "uri", handle: d.readResource, foreign: true}
	}
	if d.HasSkills() {
		table[dialect.MethodSkills] = method{handle: d.list}
		table[dialect.MethodSkill] = method{handle: d.getSkill}
	}
	if d.OffersTasks() {
		table["tasks/get"] = method{name: "taskId", handle: d.getTask, tasks: true, foreign: true}
		table["tasks/update"] = method{name: "taskId", handle: d.updateTask, tasks: true, foreign: true}
		table["tasks/cancel"] = method{name: "taskId", handle: d.cancelTask, tasks: true, foreign: true}
	}
	if d.Completes() {
		table["completion/complete"] = method{handle: d.complete, foreign: true}
	}
	return table
}

// staleText is what a client learns of a requestState that was refused, whatever
// the reason.
const staleText = "the requestState is not valid here, or no longer: send the request again without requestState and inputResponses"

// translate decides what the client learns of an error, and with which status.
func (d *stateless) translate(ctx context.Context, r *request, err error) *wire.Error {
	var unsupported *engine.UnsupportedError
	switch {
	case errors.Is(err, tokens.ErrRejected) && !r.served.saga:
		return wire.NewError(wire.CodeInvalidParams, staleText)
	case errors.As(err, &unsupported):
		rerr := wire.Refuse(http.StatusBadRequest, wire.CodeMissingCapability, dialect.Stopped(err, unsupported.Error()).Content.Text())
		rerr.Data = dialect.RequiredCapabilities(unsupported.Needs)
		return rerr
	}
	return d.Translate(ctx, r.Message.Method, err)
}

// completed is finish for the result of most methods, if there is one.
func (d *stateless) completed(open []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return d.finish(open, resultComplete), nil
}

// finish completes a result. open is a JSON object without its closing brace;
// kind is the resultType (MCP 2026-07-28, basic/index, results).
func (d *stateless) finish(open []byte, kind string) []byte {
	return append(d.finishMeta(open, kind), '}', '}')
}

// finishMeta is finish without the closing braces of _meta and the result.
func (d *stateless) finishMeta(open []byte, kind string) []byte {
	if len(open) > 1 {
		open = append(open, ',')
	}
	open = append(open, `"resultType":"`...)
	open = append(open, kind...)
	open = append(open, `","_meta":{"`+serverInfoKey+`":`...)
	return append(open, d.info...)
}

// serverInfoKey is where every result says which server it is from.
const serverInfoKey = "io.modelcontextprotocol/serverInfo"

// Kinds of results.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task"
)

// opened returns the members of an encoded JSON object, for finish.
func opened(object []byte) []byte { return bytes.TrimSuffix(object, []byte("}")) }

// cacheForAll are the caching hints of what is the same for everybody (MCP
// 2026-07-28, server/utilities/caching). Clients that listen hear of changes at
// once, the others within this time.
const cacheForAll = `,"ttlMs":60000,"cacheScope":"public"`

// cacheForOne are those of what depends on what the client has declared.
const cacheForOne = `,"ttlMs":60000,"cacheScope":"private"`

// dontCache are those of what may depend on the caller or on the time.
const dontCache = `,"ttlMs":0,"cacheScope":"private"`

func (d *stateless) discover(_ context.Context, r *request) ([]byte, error) {
	offers := d.Offers(true)
	if d.OffersTasks() {
		dialect.Extend(offers, dialect.TasksExtension)
	}
	caching := cacheForAll
	if d.Questions.Apps {
		d.apps.Offers(offers, r.Caller)
		caching = cacheForOne
	}
	b, err := wire.Marshal(struct {
		Versions     []string       `json:"supportedVersions"`
		Capabilities map[string]any `json:"capabilities"`
		Instructions string         `json:"instructions,omitzero"`
	}{[]string{version}, offers, d.Instructions})
	return d.completed(append(opened(b), caching...), err)
}

func (d *stateless) list(ctx context.Context, r *request) ([]byte, error) {
	items, caching := d.Catalogue.Lists[r.Message.Method], cacheForAll
	if r.Message.Method == "tools/list" {
		if d.Guest != nil || d.elsewhere.Varies() { // some clients get another
			caching = cacheForOne
		}
		items = d.GuestTools(d.elsewhere.Listed(items, r.Caller), r.Caller)
		items = d.apps.Listed(items, r.Caller)
	}
	if d.Turns.Permit != nil {
		caching = cacheForOne
	}
	open, err := d.List(ctx, r.Message, items)
	return d.completed(append(open, caching...), err)
}

func (d *stateless) getSkill(ctx context.Context, r *request) ([]byte, error) {
	open, err := d.Skill(ctx, r.Message.Params)
	return d.completed(append(open, cacheForOne...), err)
}

func (d *stateless) complete(ctx context.Context, r *request) ([]byte, error) {
	b, err := d.Complete(ctx, r.Message.Params)
	return d.completed(opened(b), err)
}

// caller is what the client says of itself.
func (d *stateless) caller(r *request) *dialect.Caller {
	c := &dialect.Caller{Features: r.Features, Tasks: r.Tasks, Apps: r.Apps && r.Client == nil} // the form is no tool of another transport's
	if c.Apps {
		name, _ := jsonview.String(jsonview.Get(r.client, "name"))
		c.Trusted = d.Questions.Trusts(name)
	}
	if d.Guest != nil {
		c.Declared = d.DeclaresGuest(r.Experimental)
		c.Result = func(result *content.Result) ([]byte, error) { return d.partResult(result, "") }
	}
	return c
}

// serveGuest has the guest answer a request.
func (d *stateless) serveGuest(ctx context.Context, r *request) ([]byte, error) {
	result, rerr := d.Guest.Serve(ctx, r.Exchange)
	if rerr != nil {
		return nil, rerr
	}
	return d.finish(opened(result), resultComplete), nil
}
