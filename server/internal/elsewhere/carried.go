package elsewhere

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// carried answers a call where there is no ledger: the model carries the token.
func (r *Router) carried(ctx context.Context, x *dialect.Exchange, c *Call) (*content.Result, error) {
	q := x.Turn(turns.Relayed)
	q.Program, q.Arguments, q.Client, q.Elsewhere = c.Program, json.RawMessage(c.Arguments), asked, true
	take := r.Turns.Call
	if c.Token != "" {
		list, cancel, refusal := r.readCarried(x, c, r.routing(c.Program))
		if refusal != "" {
			return dialect.Stopped(nil, refusal), nil
		}
		q.Token, q.Answers, take = c.Token, list, r.Turns.Resume
		if cancel {
			take = func(ctx context.Context, q turns.Request) (turns.End, error) { return r.Turns.Cancel(ctx, q) }
		}
	}
	end, err := take(ctx, q)
	unfit, malformed := errors.AsType[*engine.AnswerError](err)
	switch {
	case malformed:
		return dialect.Stopped(nil, doesNotFit(unfit.StepID, unfit.Reason)), nil
	case errors.Is(err, tokens.ErrRejected):
		return dialect.Stopped(nil, refusedText), nil
	case err != nil:
		return nil, err
	case end.Token == "":
		return end.Result, nil
	}
	w := relay.Words{Program: c.Program, Token: end.Token, Working: len(end.Steps) == 0, Wake: end.Wake}
	for _, s := range end.Steps {
		routes := r.Routes(r.routing(c.Program)(s.ID), x.Caller)
		if routes&steps.RouteRelay == 0 {
			q.Token, q.Answers = end.Token, nil
			undone, err := r.Turns.Cancel(ctx, q)
			if err != nil {
				return nil, err
			}
			return relay.NoWay(c.Program, s.ID, undone.Result), nil
		}
		w.Ask(s, routes)
	}
	return w.Result(), nil
}

// routing is that of the questions of all revisions of a tool: a token may be of an older one.
func (r *Router) routing(newest *engine.Program) func(question string) engine.Routing {
	return func(question string) (q engine.Routing) {
		for _, p := range r.Tools.Revisions(newest.Kind, newest.Name) {
			if q = p.Routing(question); q.User {
				break
			}
		}
		return q
	}
}
