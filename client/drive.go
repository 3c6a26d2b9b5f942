package client

import (
	"context"
)

// drive takes turns with the server until there is a result. p is its own.
func (c *Client) drive(ctx context.Context, p Position, handlers Handlers) (*Result, error) {
	dialect, known := dialects[p.Dialect]
	if !known {
		return nil, &Interrupted{Position: p, Err: &PositionError{Reason: "it uses the protocol " + p.Dialect + ", which this version does not know"}}
	}
	stop := func(err error) (*Result, error) {
		return nil, &Interrupted{Position: p.snapshot(), Err: err}
	}
	for rounds := 0; ; rounds++ {
		if rounds > c.options.MaxRounds {
			return stop(&RoundLimitError{Limit: c.options.MaxRounds})
		}
		if err := answerPending(ctx, &p, &handlers); err != nil {
			return stop(err)
		}
		raw, err := c.send(ctx, dialect.next(&p))
		if err != nil {
			return stop(err)
		}
		turn, err := dialect.parse(raw)
		if err != nil {
			return stop(err)
		}
		if turn.result != nil {
			return turn.result, nil
		}
		if err := p.suspended(turn.token, turn.steps); err != nil {
			return stop(err)
		}
		if err := handlers.report(ctx, &p); err != nil {
			return stop(err)
		}
	}
}

// answerPending has the handlers answer what the server asked and nobody has
// answered, and records each answer as it comes.
func answerPending(ctx context.Context, p *Position, handlers *Handlers) error {
	for _, step := range p.Pending() {
		info := StepInfo{Tool: p.Tool, StepID: step.StepID, Round: p.Round, Params: step.Params}
		answer, err := handlers.answer(ctx, info, step.Type)
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
