package server

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// ErrHidden is for [Options.Permit]: there is no such thing for this caller.
var ErrHidden = errors.New("there is no such thing for this caller")

// permit is of the type [turns.Permit].
func (s *Server) permit(ctx context.Context, p *engine.Program) error {
	kind, name := p.Kind, p.Name
	if tool := s.skills.tools[name]; tool != "" && kind == engine.KindResource {
		kind, name = engine.KindTool, tool
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.TurnTimeout) // it is asked before the turn's own time begins
	defer cancel()
	err := engine.Protect(func() error { return s.opts.Permit(ctx, saga.CallerOf(ctx), kind.String(), name) })
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrHidden) {
		return turns.ErrHidden
	}
	if rerr := refusalOf(err); rerr != nil {
		return refusedTurn(rerr, err)
	}
	s.log.ErrorContext(ctx, "Options.Permit failed", "kind", kind.String(), "name", name, "error", err)
	refused := refusedTurn(dialect.Fault(), err)
	refused.Later = true // who cannot say now has not refused
	return refused
}

// refusedTurn is an error of a turn that is refused, for the reason why.
func refusedTurn(rerr *wire.Error, why error) *turns.RefusedError {
	return &turns.RefusedError{Code: rerr.Code, Message: rerr.Message, Data: rerr.Data, Later: rerr.Code == wire.CodeTryAgain, Wanting: rerr.Auth(), Err: errors.Join(rerr, why)}
}
