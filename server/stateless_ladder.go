package server

import (
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// statelessRequest is a request that was admitted.
type statelessRequest struct {
	message
	caller
	served statelessMethod
	header http.Header // nil on stdio
	meta   statelessMeta
}

// statelessMeta is what a request says about itself in _meta, as far as it is
// used here. clientInfo is not: it must decide nothing (MCP 2026-07-28,
// basic/index).
type statelessMeta struct {
	Version, Capabilities, LogLevel, ProgressToken jsontext.Value

	version  string
	level    slog.Level
	wantsLog bool
}

// admit checks what can be checked of a request without its method's knowledge.
// header is nil on stdio, where there are no headers to compare. The order of
// the checks shows in the errors of requests with several faults; clients find
// out by them what a server speaks.
func (d *stateless) admit(c caller, m *message, header http.Header) (*statelessRequest, *refusal) {
	r := &statelessRequest{message: *m, caller: c, header: header}
	onHTTP := header != nil
	if onHTTP && header.Get(versionHeader) == "" {
		return nil, refuse(http.StatusBadRequest, codeHeaderMismatch, "the header MCP-Protocol-Version is missing")
	}
	if no := r.readMeta(); no != nil {
		return nil, no
	}
	if onHTTP {
		if no := matchHeader(header, versionHeader, r.meta.version); no != nil {
			return nil, no
		}
	}
	if r.meta.version != statelessVersion {
		return nil, unsupportedVersion(r.meta.version)
	}
	if onHTTP {
		if no := matchHeader(header, methodHeader, m.method); no != nil {
			return nil, no
		}
	}
	served, ok := d.table[m.method]
	if !ok {
		return nil, refuse(http.StatusNotFound, jsonrpc2.CodeMethodNotFound, "method not found")
	}
	r.served = served
	var no *refusal
	switch {
	case !onHTTP:
	case served.saga:
		no = r.matchSagaName()
	case served.name != "":
		no = r.matchName()
	}
	if no != nil {
		return nil, no
	}
	return r, r.readOptions()
}

func unsupportedVersion(requested string) *refusal {
	no := refuse(http.StatusBadRequest, codeUnsupportedProtocol, "this protocol version is not supported")
	no.setData(append(appendString([]byte(`{"supported":["`+statelessVersion+`"],"requested":`), requested), '}'))
	return no
}

// readMeta reads what every request must say about itself (MCP 2026-07-28,
// basic/index, _meta).
func (r *statelessRequest) readMeta() *refusal {
	bad := func(text string) *refusal {
		return refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidParams, text)
	}
	meta := jsontext.Value(jsonview.Get(r.params, "_meta"))
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
		}
	}
	version, ok := unquote(r.meta.Version)
	if !ok {
		return bad("params._meta lacks " + versionKey + ", a string")
	}
	r.meta.version = version
	var capabilities clientCapabilities
	if r.meta.Capabilities.Kind() != '{' || !capabilities.read(r.meta.Capabilities) {
		return bad("params._meta lacks " + capabilitiesKey + ", a ClientCapabilities object")
	}
	r.features = capabilities.features()
	return nil
}

// capabilitiesKey is where a request names the client's capabilities. They hold
// for this request only.
const capabilitiesKey = "io.modelcontextprotocol/clientCapabilities"

// logLevelKey is where a request says which log messages it wants.
const logLevelKey = "io.modelcontextprotocol/logLevel"

// readOptions reads what a request may say about itself.
func (r *statelessRequest) readOptions() *refusal {
	if len(r.meta.ProgressToken) > maxID {
		return refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidParams, longTokenText)
	}
	if t := r.meta.ProgressToken; t != nil && !validID(t) {
		return refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidParams, "params._meta.progressToken must be a string or an integer")
	}
	if r.meta.LogLevel == nil {
		return nil
	}
	name, ok := unquote(r.meta.LogLevel)
	if ok {
		r.meta.level, ok = engine.ParseLevel(name)
	}
	if !ok {
		return refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidParams,
			"params._meta has an unknown "+logLevelKey+"; the levels are those of syslog, debug to emergency")
	}
	r.meta.wantsLog = true
	return nil
}

// matchName compares the header Mcp-Name with the member that it repeats.
func (r *statelessRequest) matchName() *refusal {
	name, ok := unquote(jsonview.Get(r.params, r.served.name))
	if !ok {
		return refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidParams, "params."+r.served.name+" must be a string")
	}
	return matchEncodedHeader(r.header, nameHeader, name)
}

// unquote returns the text of a JSON string.
func unquote(v jsontext.Value) (string, bool) { return jsonview.String(v) }
