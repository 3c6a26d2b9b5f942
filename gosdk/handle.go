package gosdk

//lint:file-ignore SA1019 Sampling, roots and logs are deprecated since 2026-07-28, and in use.

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// callTool is the handler of all mounted tools.
func (m *Mounted) callTool(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	created, ok := ctx.Value(createdKey{}).(*sagaResult)
	if !ok && m.tasks[r.Params.Name] {
		return nil, m.internal(ctx, "tools/call", errors.New("middleware has replaced the request's context, so it could not be told of a task"))
	}
	return answer(ctx, m, "tools/call", r, r.Params.InputResponses, func(raw json.RawMessage) (*mcp.CallToolResult, error) {
		if !jsonview.Is(jsonview.Get(raw, "resultType"), "task") {
			return toolResult(raw)
		}
		created.Meta, created.raw = metaOf(raw), raw
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	})
}

// getPrompt is the handler of all mounted prompts.
func (m *Mounted) getPrompt(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return answer(ctx, m, "prompts/get", r, r.Params.InputResponses, promptResult)
}

// readResource is the handler of all mounted resources.
func (m *Mounted) readResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	return answer(ctx, m, "resources/read", r, r.Params.InputResponses, resourceResult)
}

// answer serves a method that may ask. read makes our result one of the SDK's.
func answer[P mcp.Params, R any](ctx context.Context, m *Mounted, method string, r *mcp.ServerRequest[P], answers mcp.InputResponseMap, read func(json.RawMessage) (*R, error)) (*R, error) {
	for _, a := range answers {
		if err := exact("", a); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
	}
	raw, err := m.handle(ctx, method, r.Session, r.Params, r.Extra)
	if err != nil {
		return nil, err
	}
	result, err := read(raw)
	if err != nil {
		return nil, m.internal(ctx, method, err)
	}
	return result, nil
}

// handle has the request answered. Its error is a *jsonrpc.Error.
func (m *Mounted) handle(call context.Context, method string, ss *mcp.ServerSession, params any, extra *mcp.RequestExtra) (json.RawMessage, error) {
	defer m.calls.Begin()()
	if call.Done() != nil { // the SDK ends it when it has written the result
		context.AfterFunc(call, m.unsaid.Begin())
	}
	if extra == nil {
		extra = new(mcp.RequestExtra)
	}
	ctx, hangUp := untilGone(call)
	defer hangUp(nil)
	if open, ok := call.Value(openKey{}).(*openCalls); ok {
		defer open.begin(sessionUser{ss.ID(), userOf(extra.TokenInfo)}, hangUp)()
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, m.internal(ctx, method, err)
	}
	caller, err := m.callerOf(extra.TokenInfo)
	if err != nil {
		return nil, m.internal(ctx, method, err)
	}
	r := &server.Request{Method: method, Params: raw, Caller: caller, Version: newest, Header: extra.Header, Peer: &peer{call, ss, extra, m.log}}
	// As the SDK sees it: a client that has not introduced itself is of the newest revision.
	if p := ss.InitializeParams(); p != nil {
		if r.Version = p.ProtocolVersion; r.Version < newest && !slices.Contains(server.Revisions(), r.Version) {
			r.Version = newestSession // which is what the SDK answers those with
		}
		if r.Capabilities, err = declared(p.Capabilities); err != nil {
			return nil, m.internal(ctx, method, err)
		}
	}
	result, err := m.server.Handle(ctx, r)
	if refused, ok := errors.AsType[*server.Error](err); ok { // as all are
		request, ok := call.Value(requestKey{}).(context.Context)
		if ok && request.Err() != nil && refused.Message == internalText { // other texts say what may be done: see serveWhileThere
			return nil, &jsonrpc.Error{Code: codeTryAgain, Message: "the request was cut off: send the same request again"}
		}
		return nil, &jsonrpc.Error{Code: refused.Code, Message: refused.Message, Data: refused.Data}
	}
	return result, err
}

// internalText is the message of errors that clients do not see.
const internalText = "internal error"

// codeTryAgain asks for the same request again.
const codeTryAgain = -31503

const (
	// newest is the first revision without a handshake.
	newest = "2026-07-28"
	// newestSession is the last with one.
	newestSession = "2025-11-25"
)

// callerOf says who sent a request. The SDK recovers from no panic: a claim that is
// not there would end the process.
func (m *Mounted) callerOf(t *auth.TokenInfo) (c saga.Caller, err error) {
	if t != nil {
		err = engine.Protect(func() (err error) { c, err = m.caller(t); return err })
	}
	return c, err
}

// declared writes what a client has declared. The SDK's own encoding always has
// roots.
func declared(c *mcp.ClientCapabilities) (json.RawMessage, error) {
	if c == nil {
		return nil, nil
	}
	return json.Marshal(struct {
		Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
		Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
		Roots       *mcp.RootCapabilities        `json:"roots,omitempty"`
	}{c.Elicitation, c.Sampling, c.RootsV2})
}

// internal logs an error and hides it from the client.
func (m *Mounted) internal(ctx context.Context, method string, err error) error {
	m.log.ErrorContext(ctx, "request failed", "method", method, "error", err)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: internalText}
}
