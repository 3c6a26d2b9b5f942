package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// drive runs a saga to its end, with the client at hand.
func (c *call) drive(ctx context.Context, t *engine.Program, args json.RawMessage) (engine.Outcome, error) {
	q := c.Turn(turns.Held)
	q.Program, q.Arguments, q.Client = t, args, c.features
	if c.notifier != nil {
		q.Notifier = c.notifier
	}
	links := newLinks(c.peer.revision)
	out, err := c.Turns.Drive(ctx, q, &client{c, links})
	if err == nil && (out.Result == nil || !out.Result.IsError) {
		links.complete(c.Way)
	}
	return out, err
}

// client asks the client by requests.
type client struct {
	*call
	links *links
}

// Ask implements [turns.Client].
func (c *client) Ask(ctx context.Context, asked []steps.Step) ([]steps.Answer, error) {
	if c.peer.answering.Err() != nil {
		return nil, context.Cause(c.peer.answering)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.peer.answering, func() { cancel(context.Cause(c.peer.answering)) })()
	answers := make([]steps.Answer, len(asked))
	errs := make([]error, len(asked))
	var all sync.WaitGroup
	for i, step := range asked {
		method, params, err := stepRequest(c.peer.revision, step, c.links)
		if err != nil {
			cancel(err)
			errs[i] = err
			break
		}
		all.Go(func() {
			answers[i], errs[i] = c.Way.Call(ctx, method, params)
			if errors.Is(errs[i], turns.ErrLate) {
				answers[i], errs[i] = steps.Answer{}, nil
			}
		})
	}
	all.Wait()
	c.links.note(asked, answers)
	return answers, errors.Join(errs...)
}

// stopped turns an end that the caller of a tool should read about into a result.
func (c *call) stopped(err error) *content.Result {
	var lacking *engine.UnsupportedError
	var rejected *codec.Rejected
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
	if unknown := lacking.Without(c.peer.revision.has()); unknown != (steps.Features{}) {
		return fmt.Sprintf("%s: the client's protocol version %v does not have %v", what, c.peer.revision, unknown)
	}
	return fmt.Sprintf("%s: this client has not declared %v", what, lacking)
}
