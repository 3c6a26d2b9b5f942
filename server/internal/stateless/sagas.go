package stateless

import (
	"context"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// serveSaga answers the methods of the saga proposal on a connection of MCP 2026-07-28:
// the same parameters, results and tokens, within that revision's rules for requests
// and results.
func (d *stateless) serveSaga(ctx context.Context, r *request) ([]byte, error) {
	// The headers that repeat arguments are compared if they are there. What names no
	// tool calls none.
	tool, arguments := dialect.SagaCall(r.Message.Params)
	if rerr := d.matchParams(r, tool, arguments); rerr != nil {
		return nil, rerr
	}
	var notifier engine.Notifier
	if r.notifier != nil {
		notifier = r.notifier
	}
	end, err := d.Saga(ctx, r.Exchange, notifier)
	if err != nil {
		return nil, err
	}
	if end.Result != nil {
		return d.toolResult(end.Result)
	}
	b, err := dialect.AppendSagaResult(make([]byte, 0, 512+len(end.Token)), &end)
	if err != nil {
		return nil, err
	}
	// The state says that the saga is suspended. The type of the result must be
	// one of MCP's: clients refuse others.
	return d.finish(opened(b), resultComplete), nil
}
