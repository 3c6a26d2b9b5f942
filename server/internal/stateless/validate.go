package stateless

import (
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// request is a request that was validated.
type request struct {
	*dialect.Exchange
	served method
	// Capabilities are what the client has declared, in the request itself.
	dialect.Capabilities
	version                         string
	logLevel, progressToken, client jsontext.Value // as they are in _meta
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
	r.Caller = d.caller(r)
	if onHTTP {
		if rerr := wire.MatchHeader(x.Header, wire.VersionHeader, r.version, false); rerr != nil {
			return nil, rerr
		}
	}
	if r.version != version {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeUnsupportedProtocol, "this protocol version is not supported").
			WithData(`{"supported":["`+version+`"],"requested":`, r.version)
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
	if r.served.tasks && !r.Tasks { // before anything is said of the task that it names
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
	var version, capabilities jsontext.Value
	for name, v := range jsonview.Members(meta) {
		switch string(name) {
		case versionKey:
			version = v
		case capabilitiesKey:
			capabilities = v
		case logLevelKey:
			r.logLevel = v
		case "progressToken":
			r.progressToken = v
		case clientKey:
			r.client = v
		}
	}
	var ok bool
	if r.version, ok = jsonview.String(version); !ok {
		return bad("params._meta lacks " + versionKey + ", a string")
	}
	if r.Capabilities, _, ok = dialect.ReadCapabilities(capabilities); !ok {
		return bad("params._meta lacks " + capabilitiesKey + ", a ClientCapabilities object")
	}
	return nil
}

// capabilitiesKey is where a request names the client's capabilities. They hold
// for this request only.
const capabilitiesKey = "io.modelcontextprotocol/clientCapabilities"

// clientKey is where a request says what the client is. It decides nothing (MCP 2026-07-28, basic/index) but whether
// the operator trusts the client's window with consents.
const clientKey = "io.modelcontextprotocol/clientInfo"

// logLevelKey is where a request says which log messages it wants.
const logLevelKey = "io.modelcontextprotocol/logLevel"

// readOptions reads what a request may say about itself.
func (r *request) readOptions() *wire.Error {
	if len(r.progressToken) > wire.MaxID {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, wire.LongTokenText)
	}
	if t := r.progressToken; t != nil && !wire.ValidID(t) {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params._meta.progressToken must be a string or an integer")
	}
	var wanted *slog.LevelVar
	if r.logLevel != nil {
		name, _ := jsonview.String(r.logLevel)
		level, ok := engine.ParseLevel(name)
		if !ok {
			return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams,
				"params._meta has an unknown "+logLevelKey+"; the levels are those of syslog, debug to emergency")
		}
		wanted = new(slog.LevelVar)
		wanted.Set(level)
	}
	if r.Way != nil && (wanted != nil || r.progressToken != nil) {
		r.Notifier = &dialect.Notifier{Way: r.Way, Token: r.progressToken, Level: wanted}
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
