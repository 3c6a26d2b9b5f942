package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// parser reads the result of a call.
type parser[R any] func(json.RawMessage, Limits) (*R, error)

// start begins the call of what p names.
func start[R any](ctx context.Context, c *Client, p Position, arguments any, h Handlers, parse parser[R]) (*R, error) {
	var err error
	if p.Arguments, err = encodeArguments(arguments); err == nil {
		p.Version = positionVersion // without it, nobody resumes the call
	}
	if p.Subject() == "" {
		err = positionError("it names no tool, prompt or resource")
	}
	return drive(ctx, c, p, err, h, parse)
}

func encodeArguments(arguments any) (json.RawMessage, error) {
	raw, err := json.Marshal(arguments)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the arguments do not encode as JSON: %w", err)
	case string(raw) == "null":
		return nil, nil
	case !bytes.HasPrefix(raw, []byte("{")):
		return nil, fmt.Errorf("the arguments of a tool must be a JSON object, not %s", raw)
	}
	return raw, nil
}

// resume continues from p, whose subject is empty if it is not of the kind that is wanted.
func resume[R any](ctx context.Context, c *Client, p Position, subject string, h Handlers, parse parser[R]) (*R, error) {
	err := p.check()
	if err == nil && subject == "" {
		err = positionError("it is of a %s: use the method for that", p.Kind())
	}
	return drive(ctx, c, p.snapshot(), err, h, parse)
}

// drive takes turns until there is a result, unless err says why not. Errors are *InterruptedError.
func drive[R any](ctx context.Context, c *Client, p Position, err error, h Handlers, parse parser[R]) (*R, error) {
	var raw json.RawMessage
	if err == nil {
		raw, err = c.turns(ctx, &p, &h)
	}
	return parsed(c, raw, err, &p, parse)
}

// parsed reads the result of a call at p, unless there is an error.
func parsed[R any](c *Client, raw json.RawMessage, err error, p *Position, parse parser[R]) (*R, error) {
	if err == nil {
		var result *R
		if result, err = parse(raw, c.options.Limits); err == nil {
			return result, nil
		}
	}
	return nil, &InterruptedError{Position: p.snapshot(), Err: err}
}

// turns returns the result of the last turn. It ends when the client is closed, also while a handler or nothing works.
func (c *Client) turns(ctx context.Context, p *Position, h *Handlers) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closed, func() { cancel(&TransportError{Sent: true, Err: errClosed, final: true}) })()
	if p.Dialect == "" { // nothing has begun
		spoken, err := c.speak(ctx)
		if err != nil {
			return nil, err
		}
		p.Dialect = spoken.features
		if p.Kind() == "tool" {
			p.Dialect = spoken.tools
		}
	}
	d, err := c.dialect(p)
	if err != nil {
		return nil, err
	}
	if p.Task != "" {
		return c.follow(ctx, p, h, nil)
	}
	for rounds := 0; rounds <= c.options.MaxRounds; {
		for _, step := range p.Pending() {
			if err := answerStep(ctx, p, h, step); err != nil {
				return nil, err
			}
		}
		next := d.next(p, h)
		next.later = p.Round > 0
		began := time.Now()
		raw, err := c.sendTurn(ctx, p, next)
		if other := c.taskDialect(ctx, p, d, raw, err); other != nil {
			d = other
			continue
		}
		if err != nil {
			return nil, err
		}
		turn, err := d.parse(raw, c.options.Limits)
		switch {
		case err != nil:
			return nil, err
		case turn.result != nil:
			return p.whole(turn.result)
		case turn.task != nil && p.Tool == "":
			return nil, malformed("the server has made a task of a %s, which MCP does not allow", p.Kind())
		case turn.task != nil:
			return c.follow(ctx, p, h, turn.task)
		}
		if err := c.suspend(ctx, p, h, turn, began); err != nil {
			return nil, err
		}
		if len(turn.steps) > 0 {
			rounds++
		}
	}
	return nil, tooManyRounds(c.options.MaxRounds)
}

// suspend moves p to the suspension of a turn that began then. If it asks nothing, suspend waits for as long as the tool sleeps, and
// longer if servers could keep the client busy otherwise: nothing else bounds these turns, unless they bring parts.
func (c *Client) suspend(ctx context.Context, p *Position, h *Handlers, t turn, began time.Time) error {
	if err := c.options.Limits.checkForms(t.steps); err != nil {
		return err
	}
	if err := p.suspended(t, c.options.Limits); err != nil {
		return err
	}
	if err := h.report(ctx, p); err != nil || len(t.steps) > 0 {
		return err
	}
	if t.wait > 0 && h.OnProgress != nil {
		h.OnProgress(Progress{Until: time.Now().Add(t.wait)})
	}
	if len(t.parts) == 0 {
		t.wait = max(t.wait, minPoll-time.Since(began))
	}
	return sleep(ctx, t.wait)
}

func tooManyRounds(most int) error {
	return fmt.Errorf("the tool asks for %w; resume the call to allow as many again", &LimitError{"rounds of answers", int64(most)})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Cancel ends a call that is suspended at position and has the server undo what
// the tool has done. The result says what was undone and what was not, in words
// and under the key io.github.mcpsaga/undo of its _meta.
//
// If the position's steps are all answered, the server may have taken that turn
// before, though its response was lost. Then the turn is taken first; if it ends
// the call, it is too late to cancel, and the result is the tool's.
//
// A position with a Task has the server end that task, which it may do or not. If it
// does, the error's chain has a [*TaskError] with the status "cancelled"; a result is the
// tool's, for which it was too late.
//
// Cancel may be repeated. Its errors are those of [Client.Call].
func (c *Client) Cancel(ctx context.Context, position Position) (*Result, error) {
	raw, err := c.cancel(ctx, position.snapshot())
	return parsed(c, raw, err, &position, parseResult)
}

func (c *Client) cancel(ctx context.Context, p Position) (json.RawMessage, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	_, err := c.dialect(&p)
	var saga sagaDialect
	switch {
	case p.Task != "":
		return c.cancelTask(ctx, &p)
	case p.Tool == "":
		return nil, positionError("a %s changes nothing, so there is nothing to undo: do not resume it", p.Kind())
	case p.Token == "" && p.Key != "" && p.Dialect != "":
		return nil, positionError("the server has not answered the first turn, so there is nothing to cancel the call by: resume it, or leave it to a ledger to undo")
	case p.Token == "":
		return nil, positionError("the call has not begun: the server knows nothing of it")
	case err != nil:
		return nil, err
	case p.Dialect != sagaProposal:
		return nil, positionError("a client of %s cannot cancel a call that waits: do not resume it, and a server with a ledger undoes what it did when its time is over", p.Dialect)
	default:
		raw, err := c.send(ctx, saga.cancel(&p))
		if err != nil {
			return nil, err
		}
		turn, err := saga.parse(raw, c.options.Limits)
		if err == nil && turn.result == nil {
			err = malformed("the server suspended a call that was to be cancelled")
		}
		return turn.result, err
	}
}

// Outstanding reports whether the result says that something the tool has done
// could not be undone.
func (r *Result) Outstanding() bool {
	var wire struct {
		Meta struct {
			Undo struct {
				Outstanding []string `json:"outstanding"`
			} `json:"io.github.mcpsaga/undo"`
		} `json:"_meta"`
	}
	return json.Unmarshal(r.Raw, &wire) == nil && len(wire.Meta.Undo.Outstanding) > 0
}
