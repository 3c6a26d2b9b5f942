package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// sagaMethods are those of the saga proposal, with this project's cancelSaga; taskMethods are
// those of the tasks extension.
var (
	sagaMethods = []string{"tools/callSaga", "tools/resumeSaga", "tools/cancelSaga"}
	taskMethods = []string{"tasks/get", "tasks/update", "tasks/cancel"}
)

// sagaParams are the parameters of such a method, as they came.
type sagaParams struct {
	mcp.ParamsBase
	raw json.RawMessage
}

func (p *sagaParams) UnmarshalJSON(data []byte) error {
	p.raw = slices.Clone(data)
	return json.Unmarshal(data, &p.ParamsBase)
}

// called returns the name of the tool that is called. What can be read in two ways
// calls nothing: it is refused.
func (p *sagaParams) called() string {
	if !jsontext.Value(p.raw).IsValid() {
		return ""
	}
	name, _ := jsonview.String(jsonview.Get(p.raw, "name"))
	return name
}

func (p *sagaParams) MarshalJSON() ([]byte, error) { return p.raw, nil }

// CalledTool returns the name of the tool that a request calls, which has the method
// tools/call or tools/callSaga. What comes later in a saga goes with a token that its
// caller got for the call.
func CalledTool(method string, r mcp.Request) (name string, ok bool) {
	switch p := r.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		if method == "tools/call" && p != nil {
			return p.Name, true
		}
	case *sagaParams:
		if method == "tools/callSaga" && p != nil {
			return p.called(), true
		}
	}
	return "", false
}

// sagaResult is the result of such a method, as we wrote it. The SDK adds _meta.
type sagaResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

func (r *sagaResult) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return r.raw, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.raw, &members); err != nil {
		return nil, err
	}
	meta, err := json.Marshal(r.Meta)
	if err != nil {
		return nil, err
	}
	members["_meta"] = meta
	return json.Marshal(members)
}

// addMethods registers the methods of the saga proposal, and those of tasks if there are any.
func (m *Mounted) addMethods(s *mcp.Server) error {
	methods := sagaMethods
	if len(m.tasks) > 0 {
		methods = slices.Concat(sagaMethods, taskMethods)
	}
	for _, method := range methods {
		err := mcp.AddReceivingCustomMethod(s, method, func(ctx context.Context, ss *mcp.ServerSession, p *sagaParams) (*sagaResult, error) {
			if p == nil {
				p = new(sagaParams)
			}
			extra, ok := ctx.Value(extraKey{}).(*mcp.RequestExtra)
			if !ok {
				return nil, m.internal(ctx, method, errors.New("middleware has replaced the request's context, so it is not known who sent it"))
			}
			if method == "tools/callSaga" && m.tools[p.called()] == nil && p.called() != "" {
				// Not passed on to the SDK: middleware that decides who may call its
				// tools need not know of this method.
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no saga of that name; other tools are called with tools/call"}
			}
			raw, err := m.handle(ctx, method, ss, p.raw, extra)
			if err != nil {
				return nil, err
			}
			return &sagaResult{mcp.ResultBase{Meta: metaOf(raw)}, raw}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// extraKey is where the middleware puts a request's extra: the SDK does not pass it to
// handlers of custom methods.
type extraKey struct{}

// tasksExtension is the name of the tasks extension.
const tasksExtension = "io.modelcontextprotocol/tasks"

// createdKey is where the context of tools/call has room for a task, if it has become one.
type createdKey struct{}

// middleware does what the SDK has no other place for.
func (m *Mounted) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch method {
		case "completion/complete":
			if r, ok := r.(*mcp.CompleteRequest); ok && m.suggests(r.Params) {
				result, err := answer(ctx, m, method, r, nil, completeResult)
				if err != nil {
					return nil, err
				}
				return result, nil
			}
		case "tools/callSaga", "tools/resumeSaga", "tools/cancelSaga", "tasks/get", "tasks/update", "tasks/cancel":
			ctx = context.WithValue(ctx, extraKey{}, r.GetExtra())
		case "tools/call":
			if len(m.tasks) > 0 {
				created := new(sagaResult)
				ctx = context.WithValue(ctx, createdKey{}, created)
				result, err := next(ctx, method, r)
				if err == nil && created.raw != nil { // the SDK has no result for it
					return created, nil
				}
				return result, err
			}
		case "initialize":
			if r, ok := r.(*mcp.ServerRequest[*mcp.InitializeParams]); ok && r.Params != nil && r.Params.ProtocolVersion >= newest {
				// The SDK answers with an older revision, and then goes by what was asked for.
				r.Params.ProtocolVersion = newestSession
			}
		}
		result, err := next(ctx, method, r)
		if err == nil {
			err = m.relist(ctx, r, result)
		}
		if err != nil {
			return result, err
		}
		switch result := result.(type) {
		case *mcp.InitializeResult:
			declared := *result
			declared.Capabilities = m.declare(result.Capabilities)
			return &declared, nil
		case *mcp.DiscoverResult:
			declared := *result
			declared.Capabilities = m.declare(result.Capabilities)
			if len(m.tasks) > 0 {
				declared.Capabilities.Extensions = maps.Clone(declared.Capabilities.Extensions)
				declared.Capabilities.AddExtension(tasksExtension, nil)
			}
			return &declared, nil
		}
		return result, nil
	}
}

// sagaMarker is the key in a server's experimental capabilities that says: some of the
// tools are sagas. Lists have it in the _meta of these.
const sagaMarker = "io.github.mcpsaga/saga"

// declare adds the capabilities that came with the sagas.
func (m *Mounted) declare(known *mcp.ServerCapabilities) *mcp.ServerCapabilities {
	c := new(mcp.ServerCapabilities)
	if known != nil {
		*c = *known
	}
	if m.server.Completes() && c.Completions == nil {
		c.Completions = &mcp.CompletionCapabilities{}
	}
	experimental := map[string]any{sagaMarker: struct{}{}}
	maps.Copy(experimental, c.Experimental)
	c.Experimental = experimental
	return c
}

// suggests reports whether what is to be completed is ours.
func (m *Mounted) suggests(p *mcp.CompleteParams) bool {
	if p == nil || p.Ref == nil {
		return false
	}
	return p.Ref.Type == "ref/prompt" && m.prompts[p.Ref.Name] || p.Ref.Type == "ref/resource" && m.resources[p.Ref.URI]
}
