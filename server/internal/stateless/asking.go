package stateless

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/apps"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// The three methods that may ask (MCP 2026-07-28,
// basic/patterns/mrtr). A turn that suspends is a result of the type
// input_required; the client sends its request again, with the answers and the
// token, which is called requestState.

func (d *stateless) callTool(ctx context.Context, r *request) ([]byte, error) {
	p, rerr := dialect.ReadParams(r.Message.Params, "name", "inputResponses")
	if rerr != nil {
		return nil, rerr
	}
	if p.Name == apps.Tool && d.apps.Shows(r.Caller) {
		return d.toolResult(d.apps.Call(ctx, r.Exchange, p.Arguments))
	}
	t, _, err := d.Tool(ctx, p.Name, p.Arguments)
	if err != nil {
		return nil, err
	}
	if rerr := d.matchParams(r, t.Name, p.Arguments); rerr != nil {
		return nil, rerr
	}
	if d.ForGuest(r.Message) {
		return d.serveGuest(ctx, r)
	}
	asTask := r.Tasks && d.TaskMode(t) != engine.TasksForbidden
	call, part, rerr := d.elsewhere.Read(r.Exchange, t, p.Arguments, asTask)
	switch p.Resumed = part; {
	case rerr != nil:
		return nil, rerr
	case p.State != nil || p.Answers != nil:
		call = nil
	case call != nil && (call.Token != "" || !asTask):
		return d.toolResult(d.elsewhere.Call(ctx, r.Exchange, call))
	}
	args := json.RawMessage(p.Resumed.Arguments)
	switch mode := d.TaskMode(t); {
	case mode == engine.TasksRequired && !r.Tasks:
		return nil, missingTasks()
	// A resume token is of a call that is no task; beside a state it says nothing, and so cannot
	// make a call of what has to be a task.
	case asTask && (p.Resumed.Token == "" || mode == engine.TasksRequired && p.State != nil):
		return d.createTask(ctx, r, call, t, args, &p)
	}
	end, question, err := d.turn(ctx, r, t, args, &p)
	if err != nil || question != nil {
		return question, err
	}
	if end.Yielded != nil {
		return d.partResult(d.Part(&end, &p.Resumed), end.Token)
	}
	return d.partResult(end.Result, "")
}

// toolResult is partResult for the result of what has no next part, if there is one.
func (d *stateless) toolResult(result *content.Result, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return d.partResult(result, "")
}

// partResult is a CallToolResult, with the token for the next part if there is one. The
// tool's _meta and the server's are one.
func (d *stateless) partResult(result *content.Result, token string) ([]byte, error) {
	bare := *result
	bare.Meta = nil
	b, err := dialect.ToolResult(&bare)
	if err != nil {
		return nil, err
	}
	b = opened(b)
	if token != "" {
		b = dialect.AppendNextToken(b, token)
	}
	b = d.finishMeta(b, resultComplete)
	for _, key := range slices.Sorted(maps.Keys(result.Meta)) { // a result that is repeated is the same
		if key == serverInfoKey {
			continue
		}
		value, err := wire.Marshal(result.Meta[key])
		if err != nil {
			return nil, err
		}
		b = wire.AppendString(append(b, ','), key)
		b = append(append(b, ':'), value...)
	}
	return append(b, '}', '}'), nil
}

func (d *stateless) getPrompt(ctx context.Context, r *request) ([]byte, error) {
	p, rerr := dialect.ReadParams(r.Message.Params, "name", "inputResponses")
	if rerr != nil {
		return nil, rerr
	}
	t, err := d.Prompt(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	if p.Arguments != nil && p.Arguments.Kind() != '{' {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.arguments must be an object")
	}
	end, question, err := d.turn(ctx, r, t, json.RawMessage(p.Arguments), &p)
	if err = dialect.EndError(end, err); err != nil || question != nil {
		return question, err
	}
	b, err := wire.Marshal(end.Messages)
	return d.completed(opened(b), err)
}

func (d *stateless) readResource(ctx context.Context, r *request) ([]byte, error) {
	p, rerr := dialect.ReadParams(r.Message.Params, "uri", "inputResponses")
	if rerr != nil {
		return nil, rerr
	}
	if open, ok := d.apps.Page(p.Name); ok {
		return d.finish(append(open, cacheForAll...), resultComplete), nil
	}
	t, variables, err := d.Resource(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, nothingAt(p.Name)
	}
	args, err := wire.Marshal(variables)
	if err != nil {
		return nil, err
	}
	end, question, err := d.turn(ctx, r, t, args, &p)
	err = dialect.EndError(end, err)
	if errors.Is(err, saga.ErrNotFound) {
		return nil, nothingAt(p.Name)
	}
	if err != nil || question != nil {
		return question, err
	}
	b := dialect.AppendContents([]byte(`{"contents":`), end.Contents)
	return d.finish(append(b, dontCache...), resultComplete), nil
}

// nothingAt is the error of a resource that does not exist (MCP 2026-07-28,
// server/resources, error handling).
func nothingAt(uri string) *wire.Error {
	return wire.NewError(wire.CodeInvalidParams, "there is no resource at this URI").WithData(`{"uri":`, uri)
}

// turn takes the turn of the saga that the request is for. If it asks, question is the
// result that says so.
func (d *stateless) turn(ctx context.Context, r *request, t *engine.Program, args json.RawMessage, p *dialect.Params) (end turns.End, question []byte, err error) {
	q, err := d.prepare(r, t, args, p)
	if err != nil {
		return end, nil, err
	}
	take := d.Turns.Call // a client that lost the state, or never needed it, may have the answers all the same
	q.Parts = true
	switch {
	case p.State != nil: // it is newer than a resume token
		take = d.Turns.Resume
	case p.Resumed.Token != "":
		p.Resumed.Turn(&q, turns.Resent)
		q.IdempotencyKey = ""
		take = d.Turns.Resume
	}
	end, err = take(ctx, q)
	if q.Policy.Purpose == turns.Paged.Purpose {
		if rerr := p.Resumed.Refused(&end, err); rerr != nil {
			return end, nil, rerr
		}
	}
	if err == nil && end.Token != "" && end.Yielded == nil {
		question = d.inputRequired(&end)
	}
	return end, question, err
}

// prepare reads what a turn needs to know. It is the first, unless there is a state.
func (d *stateless) prepare(r *request, t *engine.Program, args json.RawMessage, p *dialect.Params) (q turns.Request, err error) {
	q = r.Turn(turns.Resent)
	q.Client, q.Program, q.Arguments = r.Features, t, args
	if q.Answers, err = dialect.InputResponses(p.Answers); err != nil {
		return q, err
	}
	if p.State != nil {
		var ok bool
		if q.Token, ok = jsonview.String(p.State); !ok {
			err = wire.NewError(wire.CodeInvalidParams, "params.requestState must be the string that the server gave")
		}
		return q, err
	}
	key, rerr := d.IdempotencyKey(r.Exchange)
	if rerr != nil {
		return q, rerr
	}
	q.IdempotencyKey = key
	return q, nil
}

func (d *stateless) inputRequired(t *turns.End) []byte {
	b := append(make([]byte, 0, 512+len(t.Token)), `{"inputRequests":`...)
	b = dialect.AppendInputRequests(b, t.Steps)
	b = append(b, `,"requestState":"`...)
	b = append(b, t.Token...) // as in Suspended
	return d.finishAt(append(b, '"'), resultInputRequired, t)
}

// finishAt is finish for a result that may say when the client is to come back.
func (d *stateless) finishAt(open []byte, kind string, end *turns.End) []byte {
	b := d.finishMeta(open, kind)
	if !end.Wake.IsZero() {
		b = d.AppendRetryAfter(append(b, ','), end.Wake)
	}
	return append(b, '}', '}')
}

// serveSaga answers the methods of the saga proposal on a connection of MCP 2026-07-28:
// the same parameters, results and tokens, within that revision's rules for requests
// and results.
func (d *stateless) serveSaga(ctx context.Context, r *request) ([]byte, error) {
	// The headers that repeat arguments are compared if they are there. What names no
	// tool calls none.
	if len(d.params) > 0 {
		if p, rerr := dialect.ReadParams(r.Message.Params, "name", "inputResponses"); rerr == nil { // else the method says so
			if rerr := d.matchParams(r, p.Name, p.Arguments); rerr != nil {
				return nil, rerr
			}
		}
	}
	end, err := d.Saga(ctx, r.Exchange)
	if err != nil {
		return nil, err
	}
	if end.Result != nil {
		return d.partResult(end.Result, "")
	}
	b, err := dialect.Suspended(&end)
	if err != nil {
		return nil, err
	}
	// The state says that the saga is suspended. The type of the result must be
	// one of MCP's: clients refuse others.
	return d.finishAt(opened(b), resultComplete, &end), nil
}
