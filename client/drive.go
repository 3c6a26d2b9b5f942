package client

import (
	"context"
	"encoding/json"
	"fmt"
)

// drive takes turns with the server until there is a result, and has finish read it.
// p is its own. Errors are *Interrupted.
func (c *Client) drive(ctx context.Context, p Position, handlers Handlers, finish func(json.RawMessage) error) error {
	stop := func(err error) error { return &Interrupted{Position: p.snapshot(), Err: err} }
	dialect, err := c.dialect(&p)
	if err != nil {
		return stop(err)
	}
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
		turn, err := dialect.parse(raw, c.options.Limits)
		if err != nil {
			return stop(err)
		}
		if turn.result != nil {
			if err := finish(turn.result); err != nil {
				return stop(err)
			}
			return nil
		}
		if err := c.options.Limits.check(turn.steps); err != nil {
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
