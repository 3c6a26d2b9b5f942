package server

import (
	"context"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// This file is the methods of the saga proposal on a connection of MCP 2026-07-28:
// the same parameters, results and tokens, within that revision's rules for requests
// and results. What a client declares plays no part: it answers the steps itself, and
// for a step that it cannot perform it sends an error.

// sagaMethods adds the methods of the saga proposal to the dialect's.
func (d *stateless) sagaMethods(table map[string]statelessMethod) {
	for name, serve := range d.Server.methods {
		table[name] = statelessMethod{saga: true, handle: d.sagaMethod(serve)}
	}
}

func (d *stateless) sagaMethod(serve method) func(context.Context, *statelessRequest) ([]byte, error) {
	return func(ctx context.Context, r *statelessRequest) ([]byte, error) {
		if no := d.matchSagaParams(r); no != nil {
			return nil, no
		}
		end, err := serve(ctx, r.caller, r.Params)
		if err != nil {
			return nil, err
		}
		if end.Result != nil {
			return d.toolResult(end.Result)
		}
		b, err := appendSagaResult(make([]byte, 0, 512+len(end.Token)), &end)
		if err != nil {
			return nil, err
		}
		// The state says that the saga is suspended. The type of the result must be
		// one of MCP's: clients refuse others.
		return d.finish(opened(b), resultComplete), nil
	}
}

// matchSagaName compares the header Mcp-Name, if it is there: SDKs send it for MCP's
// own methods only. What it says of a token is compared when that is open.
func (r *statelessRequest) matchSagaName() *wire.Error {
	r.named, _, _ = wire.DecodedHeader(r.header, wire.NameHeader)
	return contradiction(r.header, &r.Message)
}

// matchSagaParams compares the headers that repeat arguments of a call, if they are
// there. What names no tool calls none.
func (d *stateless) matchSagaParams(r *statelessRequest) *wire.Error {
	var p callSagaParams
	if p.read(r.Params) != nil {
		return nil // the method says so
	}
	return d.matchParams(r, p.name, p.arguments)
}
