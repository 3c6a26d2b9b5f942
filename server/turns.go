package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// caller is what a turn needs to know of whoever sent the request.
type caller struct {
	principal Principal
	features  steps.Features
}

// turn is how a turn ended, for a dialect to translate: suspended, with token
// and steps, or with a result.
type turn struct {
	token  string
	steps  []steps.Step
	result *saga.Result
}

// purpose binds tokens to what they are for, so that no other use of the same
// keys can be confused with it.
const purpose = "saga"

// callTool runs the first turn of a saga.
func (s *Server) callTool(ctx context.Context, c caller, t *saga.Tool, args json.RawMessage) (turn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.TurnTimeout)
	defer cancel()
	id := newID()
	out, err := t.Start(ctx, saga.Call{ID: id, Now: s.opts.Now(), Client: c.features, Arguments: args})
	return s.ended(c, t, id, out, err)
}

// resumeTool runs a later turn of the saga that the token holds.
func (s *Server) resumeTool(ctx context.Context, c caller, token string, answers []steps.Answer) (turn, error) {
	t, pos, err := s.openToken(c, token)
	if err != nil {
		return turn{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.TurnTimeout)
	defer cancel()
	out, err := t.Resume(ctx, pos, saga.Resumption{Now: s.opts.Now(), Client: c.features, Answers: answers})
	return s.ended(c, t, pos.ID, out, err)
}

func (s *Server) ended(c caller, t *saga.Tool, id saga.ID, out *saga.Outcome, err error) (turn, error) {
	if err != nil {
		var position *saga.PositionError
		if errors.As(err, &position) {
			err = codec.Reject(codec.ReasonState, "%w", position)
		}
		return turn{}, &turnError{tool: t.Name, saga: id, err: err}
	}
	if out.Err != nil {
		s.log.Warn("tool failed", "tool", t.Name, "saga", id.String(), "error", out.Err)
	}
	if out.Result != nil {
		return turn{result: out.Result}, nil
	}
	token, err := s.sealToken(c, out.Position)
	if err != nil {
		return turn{}, &turnError{tool: t.Name, saga: id, err: err}
	}
	return turn{token: token, steps: out.Steps}, nil
}

// sealToken turns a position into a token that only the same principal can use.
func (s *Server) sealToken(c caller, p *saga.Position) (string, error) {
	now := s.opts.Now()
	return s.codec.Seal(c.binding(), now, &codec.Contents{
		Claims: codec.Claims{
			ID: codec.ID(p.ID), Turn: p.Turn, IssuedAt: now, Deadline: p.Deadline,
			Tool: p.Tool, Revision: p.Revision,
		},
		State:  p.Body(),
		Secret: p.Secrets(),
	})
}

// openToken returns the tool and the position of a token. Its errors are
// *codec.Rejected: all look the same to the client.
func (s *Server) openToken(c caller, token string) (*saga.Tool, *saga.Position, error) {
	x, err := s.codec.Open(c.binding(), s.opts.Now(), token)
	if err != nil {
		return nil, nil, err
	}
	t := s.tools.Lookup(x.Claims.Tool)
	if t == nil {
		return nil, nil, codec.Reject(codec.ReasonTool, "the tool %q is not served here", x.Claims.Tool)
	}
	if x.Claims.Revision != t.Revision {
		return nil, nil, codec.Reject(codec.ReasonRevision, "the token is of revision %d of %q, which has revision %d", x.Claims.Revision, t.Name, t.Revision)
	}
	p := &saga.Position{
		ID: saga.ID(x.Claims.ID), Turn: x.Claims.Turn, Tool: x.Claims.Tool, Revision: x.Claims.Revision,
		Deadline: x.Claims.Deadline,
	}
	if err := p.Restore(x.State, x.Secret); err != nil {
		return nil, nil, codec.Reject(codec.ReasonState, "%w", err)
	}
	return t, p, nil
}

func (c caller) binding() codec.Binding {
	return codec.Binding{Purpose: purpose, Principal: c.principal.binding()}
}

// turnError is a failed turn with what the log should say about it.
type turnError struct {
	tool string
	saga saga.ID
	err  error
}

func (e *turnError) Error() string { return e.err.Error() }
func (e *turnError) Unwrap() error { return e.err }

func (e *turnError) attrs() []slog.Attr {
	return []slog.Attr{slog.String("tool", e.tool), slog.String("saga", e.saga.String())}
}
