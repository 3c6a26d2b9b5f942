package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/tasks2025"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// toolsCall answers tools/call.
func (c *call) toolsCall(ctx context.Context) (json.RawMessage, error) {
	var name, arguments, task, next, meta jsontext.Value // next and meta may have the token of a next part
	for member, v := range jsonview.Members(c.Message.Params) {
		switch string(member) {
		case "name":
			name = v
		case "arguments":
			arguments = v
		case "task":
			task = v
		case "resumeToken":
			next = v
		case "_meta":
			meta = v
		}
	}
	tool, ok := jsonview.String(name)
	if !ok && name != nil && name.Kind() != 'n' {
		return nil, wire.WrongParam("/name")
	}
	t, _, err := c.Tool(tool, arguments)
	if err != nil {
		return nil, err
	}
	if c.Client == nil && len(c.Guests) > 0 { // a foreign transport has none that could be used instead
		if rerr := c.GuestsRefuse(t, c.caller(c.peer, "")); rerr != nil {
			return nil, rerr
		}
	}
	var part *dialect.Resumed
	args := json.RawMessage(arguments)
	if t.Yields || next != nil || jsonview.Get(meta, dialect.ResumeTokenMember) != nil {
		read, rerr := dialect.ReadResumed(c.Message.Params, t, arguments)
		if rerr != nil {
			return nil, rerr
		}
		part, args = &read, json.RawMessage(read.Arguments)
	}
	if c.Tasks != nil && c.Client == nil && c.offersTasks(c.peer) { // a foreign transport offers none
		asTask, ttl, rerr := tasks2025.Wanted(c.TaskMode(t), task)
		switch {
		case rerr != nil:
			return nil, rerr
		case asTask:
			return c.createTask(ctx, t, args, ttl)
		}
	}
	out, err := c.drive(ctx, t, args, part)
	if part != nil {
		if rerr := part.Refused(&out, err); rerr != nil {
			return nil, rerr
		}
	}
	if err == nil && out.Yielded != nil {
		b, err := wire.Marshal(c.peer.revision.Result(c.Part(&out, part)))
		if err != nil {
			return nil, err
		}
		return append(dialect.AppendNextToken(b[:len(b)-1], out.Token), '}'), nil
	}
	return c.toolResult(out, err)
}

// toolResult is the response to a call of a tool.
func (c *call) toolResult(out turns.End, err error) (json.RawMessage, error) {
	result := out.Result
	if err != nil {
		if result = c.stopped(err); result == nil {
			return nil, err
		}
	}
	return dialect.AppendToolResult(nil, c.peer.revision.Result(result))
}

// drive runs a saga to its end, with the client at hand.
func (c *call) drive(ctx context.Context, t *engine.Program, args json.RawMessage, part *dialect.Resumed) (turns.End, error) {
	if c.Tasks != nil && c.isTask(t) {
		return c.callTask(ctx, t, args)
	}
	if c.Tasks != nil && c.post != nil {
		c.post.stream.settle(0) // no other replica can continue it
	}
	return c.driveHere(ctx, t, args, part)
}

// driveHere drives a saga without a ledger: its answers must come to this process.
func (c *call) driveHere(ctx context.Context, t *engine.Program, args json.RawMessage, part *dialect.Resumed) (turns.End, error) {
	q := c.Turn(turns.Held)
	q.Program, q.Arguments, q.Client = t, args, c.features
	if resumed := part != nil && part.Turn(&q, turns.Held); !resumed && c.TakesKeys {
		var rerr *wire.Error
		if q.IdempotencyKey, rerr = c.IdempotencyKey(c.Exchange); rerr != nil {
			return turns.End{}, rerr
		}
	}
	asker := &client{call: c}
	out, err := c.Turns.Drive(ctx, q, asker)
	if err == nil && (out.Result == nil || !out.Result.IsError) {
		c.completed(asker.links.accepted)
	}
	return out, err
}

// stopped turns an end that the caller of a tool should read about into a result.
func (c *call) stopped(err error) *content.Result {
	var lacking *engine.UnsupportedError
	var rejected *tokens.Rejected
	var text string
	switch {
	case errors.As(err, &lacking):
		text = c.lacks(lacking)
	case errors.As(err, &rejected):
		text = "The call took too long to answer, or the server was changed meanwhile. Call the tool again."
	default:
		return nil
	}
	r := content.Resultf("%s", text)
	r.IsError = true
	return r
}

// lacks says what the client would have to be able to do.
func (c *call) lacks(e *engine.UnsupportedError) string {
	what := fmt.Sprintf("%q cannot be used", e.Tool)
	if e.StepID != "" {
		what = fmt.Sprintf("%q cannot ask %q", e.Tool, e.StepID)
	}
	if c.Way == nil {
		return what + ": the request does not accept text/event-stream, so the client cannot be asked"
	}
	lacking := e.Needs.Without(c.Turns.Features(c.features))
	if unknown := lacking.Without(c.peer.revision.Has()); unknown != (steps.Features{}) {
		return fmt.Sprintf("%s: the client's protocol version %v does not have %v", what, c.peer.revision, unknown)
	}
	return fmt.Sprintf("%s: this client has not declared %v", what, lacking)
}
