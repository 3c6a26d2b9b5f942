package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
)

// statelessVersion is the revision that the stateless dialect speaks.
const statelessVersion = "2026-07-28"

// Error codes of the stateless era (MCP 2026-07-28, basic/index, error codes).
const (
	codeHeaderMismatch      = -32020
	codeMissingCapability   = -32021
	codeUnsupportedProtocol = -32022
)

// stateless is the dialect of MCP 2026-07-28: requests that say everything about
// themselves, questions to the client as results (multi round-trip requests), no
// handshake and no requests from the server.
//
// Its files: _ladder (what a request must be), _headers and _params (HTTP headers
// that repeat the body), _lists, _mrtr and _sagas (what is served), _listen
// (subscriptions), _notify (what is told meanwhile), _http, _sse and _lines (how it gets to the client).
type stateless struct {
	*Server
	// table has the methods that there are, given what the server offers.
	table map[string]statelessMethod
	// info is this server's Implementation, which is in every result.
	info []byte
	// params are the arguments that HTTP headers repeat, by tool.
	params map[string][]paramHeader
	// keepAlive is how often an idle event stream shows that it is alive.
	keepAlive time.Duration
}

// statelessMethod is one method of the dialect.
type statelessMethod struct {
	// name is the member of params that the header Mcp-Name repeats, or empty.
	name   string
	handle func(context.Context, *statelessRequest) ([]byte, error)
	// saga methods are not MCP's own but those of the saga proposal.
	saga bool
}

// init completes the dialect of a server that is otherwise ready.
func (d *stateless) init(s *Server) (err error) {
	d.Server, d.keepAlive = s, keepAlive
	if d.info, err = marshal(implementation{s.opts.Name, s.opts.Title, s.opts.Version}); err != nil {
		return err
	}
	d.params = make(map[string][]paramHeader)
	var wrong []error
	for _, t := range s.tools.List() {
		found, err := paramHeaders(t)
		wrong = append(wrong, err)
		d.params[t.Name] = found
	}
	d.table = d.methods()
	return errors.Join(wrong...)
}

// methods are the methods that are served. What is not offered is not found
// (MCP 2026-07-28, server/discover: capabilities).
func (d *stateless) methods() map[string]statelessMethod {
	table := map[string]statelessMethod{
		"server/discover": {handle: d.discover},
		listenMethod:      {}, // has its own way to answer
	}
	d.sagaMethods(table)
	if len(d.tools.List()) > 0 {
		table["tools/list"] = statelessMethod{handle: d.list("tools", d.catalog.tools)}
		table["tools/call"] = statelessMethod{name: "name", handle: d.callTool}
	}
	if len(d.tools.Of(saga.KindPrompt)) > 0 {
		table["prompts/list"] = statelessMethod{handle: d.list("prompts", d.catalog.prompts)}
		table["prompts/get"] = statelessMethod{name: "name", handle: d.getPrompt}
	}
	if len(d.tools.Of(saga.KindResource)) > 0 {
		table["resources/list"] = statelessMethod{handle: d.list("resources", d.catalog.resources)}
		table["resources/templates/list"] = statelessMethod{handle: d.list("resourceTemplates", d.catalog.templates)}
		table["resources/read"] = statelessMethod{name: "uri", handle: d.readResource}
	}
	if d.completes() {
		table["completion/complete"] = statelessMethod{handle: d.complete}
	}
	return table
}

// run handles a request that was admitted. The refusal is nil if there is a result.
func (d *stateless) run(ctx context.Context, r *statelessRequest) ([]byte, *refusal) {
	result, err := r.served.handle(ctx, r)
	if err != nil {
		return nil, d.refusalOf(ctx, r, err)
	}
	return result, nil
}

// staleText is what a client learns of a requestState that was refused, whatever
// the reason.
const staleText = "the requestState is not valid here, or no longer: send the request again without requestState and inputResponses"

// refusalOf decides what the client learns of an error, and with which status.
func (d *stateless) refusalOf(ctx context.Context, r *statelessRequest, err error) *refusal {
	var rejected *tokens.Rejected
	var unsupported *saga.UnsupportedError
	var arguments *saga.ArgumentsError
	var tool *saga.ToolError
	switch {
	case errors.As(err, &rejected) && !r.served.saga:
		d.wireError(ctx, r.method, err) // logs why
		return refuse(http.StatusOK, jsonrpc2.CodeInvalidParams, staleText)
	case errors.As(err, &unsupported):
		no := refuse(http.StatusBadRequest, codeMissingCapability, unsupported.Error())
		no.setData(append(append([]byte(`{"requiredCapabilities":`), requiredCapabilities(unsupported.Needs)...), '}'))
		return no
	case errors.As(err, &arguments):
		return refuse(http.StatusOK, jsonrpc2.CodeInvalidParams, arguments.Error())
	case errors.As(err, &tool):
		return &refusal{http.StatusOK, d.toolError(ctx, r.method, tool)}
	}
	fail := d.wireError(ctx, r.method, err)
	return &refusal{statusOf(fail.Code), fail}
}

// statusOf is the HTTP status of an error response to a request that passed the
// ladder. Where the specification leaves it open it is 200: the message was
// delivered and answered (MCP 2026-07-28, basic/transports/streamable-http).
func statusOf(code int64) int {
	switch code {
	case codeHeaderMismatch, codeMissingCapability, codeUnsupportedProtocol:
		return http.StatusBadRequest
	case jsonrpc2.CodeMethodNotFound:
		return http.StatusNotFound
	case codeTryAgain:
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// refusal is an error response with its HTTP status.
type refusal struct {
	status int
	*jsonrpc2.Error
}

func refuse(status int, code int64, text string) *refusal {
	return &refusal{status, rpcError(code, text)}
}

func (r *refusal) setData(data []byte) {
	raw := json.RawMessage(data)
	r.Data = &raw
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
)

// opened returns the members of an encoded JSON object, for finish.
func opened(object []byte) []byte { return object[:len(object)-1] }

// appendReply writes a response; without an id if that could not be read.
func appendReply(b []byte, id jsontext.Value, result []byte, no *refusal) []byte {
	if no == nil {
		return appendResponse(b, id, result, nil)
	}
	if id != nil {
		return appendResponse(b, id, nil, no.Error)
	}
	return appendIDless(b, no.Error)
}
