package client

import (
	"context"
	"encoding/json"
	"fmt"
)

// drive takes turns with the server until there is a result, which parse reads. p is
// its own. Errors are *Interrupted.
func drive[R any](ctx context.Context, c *Client, p Position, handlers Handlers, parse func(json.RawMessage, Limits) (*R, error)) (*R, error) {
	stop := func(err error) (*R, error) { return nil, &Interrupted{Position: p.snapshot(), Err: err} }
	dialect, err := c.dialect(&p)
	if err != nil {
		return stop(err)
	}
	limits := c.options.Limits
	for rounds := 0; ; rounds++ {
		if rounds > c.options.MaxRounds {
			return stop(fmt.Errorf("the tool asks for %w; resume the call to allow as many again", &LimitError{"rounds of answers", int64(c.options.MaxRounds)}))
		}
		if err := answerPending(ctx, &p, &handlers, dialect.rules()); err != nil {
			return stop(err)
		}
		next := dialect.next(&p, &handlers)
		next.later = p.Token != ""
		raw, err := c.send(ctx, next)
		if err != nil {
			return stop(err)
		}
		turn, err := dialect.parse(raw, limits)
		if err != nil {
			return stop(err)
		}
		if turn.result != nil {
			result, err := parse(turn.result, limits)
			if err != nil {
				return stop(err)
			}
			return result, nil
		}
		if err := limits.check(turn.steps); err != nil {
			return stop(err)
		}
		if err := p.suspended(turn.token, turn.steps, dialect.rules()); err != nil {
			return stop(err)
		}
		if err := handlers.report(ctx, &p); err != nil {
			return stop(err)
		}
	}
}

// resume goes on from a position, whose subject must be of the kind wanted: not empty.
func resume[R any](ctx context.Context, c *Client, p Position, subject string, h Handlers, parse func(json.RawMessage, Limits) (*R, error)) (*R, error) {
	if err := p.check(); err != nil {
		return nil, &Interrupted{Position: p, Err: err}
	}
	if subject == "" {
		return nil, &Interrupted{Position: p, Err: positionError("it is of a %s: use the method for that", p.Kind())}
	}
	return drive(ctx, c, p.snapshot(), h, parse)
}

// answerPending has the handlers answer what the server asked and nobody has
// answered, and records each answer as it comes.
func answerPending(ctx context.Context, p *Position, handlers *Handlers, rules answerRules) error {
	for _, step := range p.Pending() {
		request := &Request{Tool: p.Subject(), StepID: step.StepID, Round: p.Round, Params: step.Params}
		answer, err := handlers.answer(ctx, request, step.Type)
		if err == nil && answer.Error != nil && !rules.errors {
			err = answer.Error
		}
		if err != nil {
			return err
		}
		p.Answers = append(p.Answers, answer)
		if err := handlers.report(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handlers) report(ctx context.Context, p *Position) error {
	if h.OnPosition == nil {
		return nil
	}
	return h.OnPosition(ctx, p.snapshot())
}
