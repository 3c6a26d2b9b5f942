package gosdk

//lint:file-ignore SA1019 Sampling, roots and logs are deprecated since 2026-07-28, and in use.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
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
	Disconnect(retry time.Duration)
} = (*peer)(nil)

func (p *peer) Notify(method string, params json.RawMessage) {
	var err error
	switch method {
	case "notifications/progress":
		err = notify(p, params, p.ss.NotifyProgress, func(v *mcp.ProgressNotificationParams) {
			v.ProgressToken = json.RawMessage(jsonview.Get(params, "progressToken"))
		})
	case "notifications/message":
		err = notify(p, params, p.ss.Log, func(v *mcp.LoggingMessageParams) { v.Data = json.RawMessage(jsonview.Get(params, "data")) }) // numbers as they are
	case "notifications/elicitation/complete":
		err = notify(p, params, p.ss.NotifyElicitationComplete, func(*mcp.ElicitationCompleteParams) {})
	}
	if err != nil && p.ctx.Err() == nil {
		p.log.DebugContext(p.ctx, "notification not sent", "method", method, "error", err)
	}
}

func notify[P any](p *peer, params json.RawMessage, send func(context.Context, *P) error, amend func(*P)) error {
	v := new(P)
	if err := json.Unmarshal(params, v); err != nil {
		return err
	}
	amend(v)
	return send(p.ctx, v)
}

func (p *peer) Ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	result, err := p.send(ctx, method, params)
	if err == nil {
		raw, err := json.Marshal(result)
		return steps.Answer{Result: raw}, err
	}
	return p.failure(ctx, method, err)
}

// A broken connection fails the SDK's call, with any error, and then ends the request. An answer
// that the SDK cannot read fails the call only. nextMoment is for contexts of the program's own,
// which may hear a little later that the request has ended.
const nextMoment = 100 * time.Millisecond

// settle waits until the SDK has ended the request, if it is about to. It does so under the lock
// of the connection, which is taken to send a notification as well; one that cannot be encoded
// is not sent.
func (p *peer) settle() {
	_ = p.ss.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: make(chan struct{})})
}

// What else the SDK's errors mean.
const (
	codeUnfit         = -32602 // of ours: the answer is not one to the question
	codeUndeliverable = -32005 // of the SDK's: there is no stream to the client
	undeliverable     = "rejected by transport"
)

// failure says what it means that a question has failed.
func (p *peer) failure(ctx context.Context, method string, err error) (steps.Answer, error) {
	var refused *jsonrpc.Error
	var number *inexact
	switch {
	case ctx.Err() != nil:
		return steps.Answer{}, context.Cause(ctx)
	case errors.Is(err, mcp.ErrConnectionClosed):
		return steps.Answer{}, err
	case errors.As(err, &number):
		return p.unfit(method, err), nil
	case !errors.As(err, &refused):
	case refused.Code == codeUndeliverable && refused.Message == undeliverable:
		return steps.Answer{}, err
	default:
		return steps.Answer{Error: &steps.ClientError{Code: refused.Code, Message: refused.Message, Data: refused.Data}}, nil
	}
	p.settle()
	select {
	case <-p.ctx.Done():
		return steps.Answer{}, whyOver(p.ctx)
	case <-ctx.Done():
		return steps.Answer{}, context.Cause(ctx)
	case <-time.After(nextMoment):
	}
	return p.unfit(method, err), nil
}

// unfit is in the place of an answer that is none.
func (p *peer) unfit(method string, why error) steps.Answer {
	p.log.InfoContext(p.ctx, "answer not usable", "method", method, "reason", why)
	return steps.Answer{Error: &steps.ClientError{Code: codeUnfit, Message: why.Error()}}
}

func (p *peer) send(ctx context.Context, method string, params json.RawMessage) (any, error) {
	ask, err := question(method, params)
	if err != nil {
		return nil, err
	}
	switch ask := ask.(type) {
	case *mcp.ElicitParams:
		said := new(said)
		result, err := p.ss.Elicit(context.WithValue(ctx, saidKey{}, said), ask)
		if result, err = said.instead(result, err); err != nil {
			return nil, err
		}
		return result, exact("", result)
	case *mcp.CreateMessageWithToolsParams:
		result, err := p.ss.CreateMessageWithTools(ctx, ask)
		if err != nil {
			return nil, err
		}
		return result, exact("", result)
	case *mcp.ListRootsParams:
		return p.ss.ListRoots(ctx, ask)
	}
	return nil, fmt.Errorf("the SDK has no request of the type %T", ask)
}

// Disconnect is what a [server.Peer] may have besides.
func (p *peer) Disconnect(retry time.Duration) {
	if p.extra.CloseSSEStream != nil {
		p.extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: retry})
	}
}

// said is what a client said to a form. The SDK refuses an answer that does not fit
// the form, which a saga has asked again, and puts defaults where the user took
// them out.
type said struct {
	result *mcp.ElicitResult
	intact mcp.ElicitResult
}

type saidKey struct{}

// listen notes what clients say to forms.
func listen(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if s, ok := ctx.Value(saidKey{}).(*said); ok && err == nil {
			if result, ok := result.(*mcp.ElicitResult); ok && result != nil {
				s.result, s.intact = result, *result
				s.intact.Content = maps.Clone(result.Content)
			}
		}
		return result, err
	}
}

// instead returns what the client said in place of what the SDK makes of it. What
// other middleware has put in its place stays.
func (s *said) instead(result *mcp.ElicitResult, err error) (*mcp.ElicitResult, error) {
	if s.result == nil || err == nil && result != s.result {
		return result, err
	}
	return &s.intact, nil
}
