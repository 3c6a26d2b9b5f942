package stateless

import (
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// request is a request that was validated.
type request struct {
	*dialect.Exchange
	served   method
	meta     meta
	features steps.Features
	// tasks: the client takes tasks for results.
	tasks bool
	// apps: the client shows forms of the server's (MCP Apps).
	apps bool
	// experimental are the client's experimental capabilities.
	experimental jsontext.Value
}

// meta is what a request says about itself in _meta, as far as it is
// used here. clientInfo decides nothing (MCP 2026-07-28, basic/index) but whether
// the operator trusts the client's window with consents.
type meta struct {
	Version, Capabilities, LogLevel, ProgressToken, Client jsontext.Value

	version string
}

// validate checks what can be checked of a request without its method's knowledge. The
// order of the checks shows in the errors of requests with several faults; clients find
// out by them what a server speaks.
func (d *stateless) validate(x *dialect.Exchange) (*request, *wire.Error) {
	r := &request{Exchange: x}
	// On stdio there are no headers to compare, and transports not of ours see to
	// those of MCP's own methods.
	onHTTP := x.Header != nil && x.Client == nil
	if x.Client != nil && !d.table[x.Message.Method].foreign {
		return nil, wire.NotFound()
	}
	if onHTTP && x.Header.Get(wire.VersionHeader) == "" {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeHeaderMismatch, "the header MCP-Protocol-Version is missing")
	}
	if rerr := r.readMeta(); rerr != nil {
		return nil, rerr
	}
	if onHTTP {
		if rerr := wire.MatchHeader(x.Header, wire.VersionHeader, r.meta.version, false); rerr != nil {
			return nil, rerr
		}
	}
	if r.meta.version != version {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeUnsupportedProtocol, "this protocol version is not supported").
			WithData(`{"supported":["`+version+`"],"requested":`, r.meta.version)
	}
	if onHTTP {
		if rerr := wire.MatchHeader(x.Header, wire.MethodHeader, x.Message.Method, false); rerr != nil {
			return nil, rerr
		}
	}
	var ok bool
	if r.served, ok = d.table[x.Message.Method]; !ok {
		if !d.ForGuest(x.Message) {
			return nil, wire.NotFound()
		}
		r.served = method{handle: d.serveGuest}
	}
	if r.served.tasks && !r.tasks { // before anything is said of the task that it names
		return nil, missingTasks()
	}
	// Nor do such transports know which header names a task.
	if onHTTP || r.served.tasks && x.Header != nil {
		if rerr := r.matchName(); rerr != nil {
			return nil, rerr
		}
	}
	return r, r.readOptions()
}

// readMeta reads what every request must say about itself (MCP 2026-07-28,
// basic/index, _meta).
func (r *request) readMeta() *wire.Error {
	bad := func(text string) *wire.Error {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, text)
	}
	meta := jsontext.Value(jsonview.Get(r.Message.Params, "_meta"))
	if meta.Kind() != '{' {
		return bad("params._meta is missing: it must say what the request is, with " + versionKey + " and " + capabilitiesKey)
	}
	for name, v := range jsonview.Members(meta) {
		switch string(name) {
		case versionKey:
			r.meta.Version = v
		case capabilitiesKey:
			r.meta.Capabilities = v
		case logLevelKey:
			r.meta.LogLevel = v
		case "progressToken":
			r.meta.ProgressToken = v
		case clientKey:
			r.meta.Client = v
		}
	}
	var ok bool
	if r.meta.version, ok = jsonview.String(r.meta.Version); !ok {
		return bad("params._meta lacks " + versionKey + ", a string")
	}
	capabilities, _, ok := dialect.ReadCapabilities(r.meta.Capabilities)
	if !ok {
		return bad("params._meta lacks " + capabilitiesKey + ", a ClientCapabilities object")
	}
	r.features, r.tasks, r.experimental = capabilities.Features, capabilities.Tasks, capabilities.Experimental
	r.apps = capabilities.Apps
	return nil
}

// capabilitiesKey is where a request names the client's capabilities. They hold
// for this request only.
const capabilitiesKey = "io.modelcontextprotocol/clientCapabilities"

// clientKey is where a request says what the client is.
const clientKey = "io.modelcontextprotocol/clientInfo"

// logLevelKey is where a request says which log messages it wants.
const logLevelKey = "io.modelcontextprotocol/logLevel"

// readOptions reads what a request may say about itself.
func (r *request) readOptions() *wire.Error {
	if len(r.meta.ProgressToken) > wire.MaxID {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, wire.LongTokenText)
	}
	if t := r.meta.ProgressToken; t != nil && !wire.ValidID(t) {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params._meta.progressToken must be a string or an integer")
	}
	var wanted *slog.LevelVar
	if r.meta.LogLevel != nil {
		name, _ := jsonview.String(r.meta.LogLevel)
		level, ok := engine.ParseLevel(name)
		if !ok {
			return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams,
				"params._meta has an unknown "+logLevelKey+"; the levels are those of syslog, debug to emergency")
		}
		wanted = new(slog.LevelVar)
		wanted.Set(level)
	}
	if r.Way != nil && (wanted != nil || r.meta.ProgressToken != nil) {
		r.Notifier = &dialect.Notifier{Way: r.Way, Token: r.meta.ProgressToken, Level: wanted}
	}
	return nil
}

// matchName compares the header Mcp-Name with the member that it repeats. Of the saga
// proposal's methods it need not be there: SDKs send it for MCP's own methods only. What
// it says of a token is compared when that is open.
func (r *request) matchName() *wire.Error {
	if r.served.saga {
		return dialect.Contradiction(r.Header, r.Message)
	}
	if r.served.name == "" {
		return nil
	}
	name, ok := jsonview.String(jsonview.Get(r.Message.Params, r.served.name))
	if !ok {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params."+r.served.name+" must be a string")
	}
	return wire.MatchHeader(r.Header, wire.NameHeader, name, true)
}
