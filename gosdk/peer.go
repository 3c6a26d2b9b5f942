package gosdk

//lint:file-ignore SA1019 Sampling, roots and logs are deprecated since 2026-07-28, and in use.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// peer is the client of a request, through the SDK's session.
type peer struct {
	// ctx is the request's: the SDK finds by it the stream that messages go to.
	ctx   context.Context
	ss    *mcp.ServerSession
	extra *mcp.RequestExtra
	log   *slog.Logger
}

var _ interface {
	server.Peer
	server.PeerDisconnecter
} = (*peer)(nil)

// Notify implements [server.Peer].
func (p *peer) Notify(method string, params json.RawMessage) {
	var err error
	switch method {
	case "notifications/progress":
		v := new(mcp.ProgressNotificationParams)
		if err = json.Unmarshal(params, v); err == nil {
			err = p.ss.NotifyProgress(p.ctx, v)
		}
	case "notifications/message":
		v := new(mcp.LoggingMessageParams)
		if err = json.Unmarshal(params, v); err == nil {
			v.Data = json.RawMessage(gjson.GetBytes(params, "data").Raw) // numbers as they are
			err = p.ss.Log(p.ctx, v)
		}
	case "notifications/elicitation/complete":
		v := new(mcp.ElicitationCompleteParams)
		if err = json.Unmarshal(params, v); err == nil {
			err = p.ss.NotifyElicitationComplete(p.ctx, v)
		}
	}
	if err != nil && p.ctx.Err() == nil {
		p.log.DebugContext(p.ctx, "notification not sent", "method", method, "error", err)
	}
}

// codeUnfit is the code of an answer that is not one to the question.
const codeUnfit = -32602

// Ask implements [server.Peer].
func (p *peer) Ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	result, err := p.send(merge(ctx, p.ctx), method, params)
	if err == nil {
		raw, err := json.Marshal(result)
		return steps.Answer{Result: raw}, err
	}
	if ctx.Err() != nil {
		return steps.Answer{}, context.Cause(ctx)
	}
	if p.ctx.Err() != nil {
		return steps.Answer{}, context.Cause(p.ctx)
	}
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		return steps.Answer{Error: &steps.ClientError{Code: refused.Code, Message: refused.Message, Data: refused.Data}}, nil
	}
	if errors.Is(err, mcp.ErrConnectionClosed) {
		return steps.Answer{}, err
	}
	// What is left is what the SDK finds wrong with an answer.
	return steps.Answer{Error: &steps.ClientError{Code: codeUnfit, Message: err.Error()}}, nil
}

func (p *peer) send(ctx context.Context, method string, params json.RawMessage) (any, error) {
	ask, err := question(method, gjson.ParseBytes(params))
	if err != nil {
		return nil, err
	}
	switch ask := ask.(type) {
	case *mcp.ElicitParams:
		result, err := p.ss.Elicit(ctx, ask)
		if err != nil {
			return nil, err
		}
		return result, exact(result)
	case *mcp.CreateMessageWithToolsParams:
		return p.ss.CreateMessageWithTools(ctx, ask)
	case *mcp.ListRootsParams:
		return p.ss.ListRoots(ctx, ask)
	}
	return nil, fmt.Errorf("the SDK has no request of the type %T", ask)
}

// Disconnect implements [server.PeerDisconnecter].
func (p *peer) Disconnect(retry time.Duration) {
	if p.extra != nil && p.extra.CloseSSEStream != nil {
		p.extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: retry})
	}
}

// merged is a context that ends as one says and has the values of another.
type merged struct {
	context.Context
	values context.Context
}

func merge(ends, values context.Context) context.Context { return merged{ends, values} }

// Value implements [context.Context].
func (c merged) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
