package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// caller is what a turn needs to know of whoever sent the request.
type caller struct {
	principal Principal
	// came is the HTTP request, for [Server.ownerOf]; nil on stdio.
	came     *http.Request
	features steps.Features
	// notify passes on what the tool tells meanwhile, or is nil.
	notify engine.Notifier
	// purpose separates the tokens of dialects with different rules.
	purpose string
	// resends: the client sends the arguments in every turn, so the token holds
	// a digest of them in their place; of answers it sends those to the last
	// steps, and what else comes is to be ignored.
	resends bool
	// named is what the request's header says that a token is for, or empty.
	named string
	// cancels: nothing is run, so the arguments do not matter.
	cancels bool
	// ahead are answers that came before the steps were asked.
	ahead []steps.Answer
	// brought is how many bytes of arguments and answers the request has.
	brought int
}

// Purposes of tokens. They are bound to the tokens as associated data, so that
// the token of one dialect is not taken for that of another.
const (
	purposeSaga = "saga"      // tools/callSaga and tools/resumeSaga
	purposeMRTR = "mrtr"      // requestState of MCP 2026-07-28
	purposeHeld = "handshake" // tokens that never leave the server: MCP before 2026-07-28
)

// turn is how a turn ended, for a dialect to translate: suspended, with token
// and steps, or with the outcome's result.
type turn struct {
	token string
	steps []steps.Step
	engine.Outcome
}

// call runs the first turn of a saga.
func (s *Server) call(ctx context.Context, c caller, t *engine.Program, args json.RawMessage) (turn, error) {
	lazy := newLazyContext(ctx, time.Now().Add(s.opts.TurnTimeout))
	defer lazy.cancel()
	ctx = lazy
	c.brought = sizeOf(args, c.ahead)
	id := newID()
	// Nobody can take a first turn again, in whatever dialect: the next call is
	// another saga. What this one did before it broke off would stay done for ever.
	out, err := t.Start(ctx, engine.Call{ID: id, Now: s.opts.Now(), Client: s.features(c), Arguments: args, Notifier: c.notify, Held: true})
	if err == nil {
		if out, err = s.advance(ctx, c, t, out); err != nil {
			err = s.forsake(ctx, t, out.Position, err)
		}
	}
	end, err := s.ended(c, t, id, args, out, err)
	if err != nil && out != nil { // the next token could not be sealed
		err = s.forsake(ctx, t, out.Position, err)
	}
	return end, err
}

// resume runs a later turn of the saga that the token holds. Dialects whose
// requests name the tool and its arguments every time pass them; the others
// pass nil, and take the tool from the token.
func (s *Server) resume(ctx context.Context, c caller, t *engine.Program, args json.RawMessage, token string, answers []steps.Answer) (turn, error) {
	c.brought = sizeOf(args, answers)
	o, err := s.openToken(c, t, args, token)
	if err != nil {
		return turn{}, err
	}
	if o.early != nil {
		return turn{}, &turnError{tool: o.tool.Name, saga: o.pos.ID, err: fmt.Errorf("%w: %v", errEarly, o.early.Detail)}
	}
	if o.gone != nil {
		return s.abandon(ctx, c, o)
	}
	t, pos := o.tool, o.pos
	lazy := newLazyContext(ctx, time.Now().Add(s.opts.TurnTimeout))
	defer lazy.cancel()
	ctx = lazy
	r := engine.Resumption{Now: s.opts.Now(), Client: s.features(c), Answers: answers, Notifier: c.notify, Held: c.held()}
	if c.resends {
		r.Arguments = orEmpty(args)
		pending := pos.PendingIDs()
		r.Answers = slices.DeleteFunc(slices.Clone(answers), func(a steps.Answer) bool { return !slices.Contains(pending, a.StepID) })
	}
	out, err := t.Resume(ctx, pos, r)
	var position *engine.PositionError
	var undone *engine.UndoneError // by the engine, if nobody could take the turn again
	if errors.As(err, &position) && !errors.As(err, &undone) && pos.HasEffects() && pos.Next() != "" {
		o.gone = codec.Reject(codec.ReasonState, "%w", position)
		return s.abandon(ctx, c, o)
	}
	if err == nil {
		if out, err = s.advance(ctx, c, t, out); err != nil && c.held() {
			err = s.forsake(ctx, t, out.Position, err)
		}
	}
	end, err := s.ended(c, t, pos.ID, args, out, err)
	if err != nil && out != nil && c.held() {
		err = s.forsake(ctx, t, out.Position, err)
	}
	return end, err
}

func (s *Server) ended(c caller, t *engine.Program, id saga.ID, args json.RawMessage, out *engine.Outcome, err error) (turn, error) {
	if err != nil {
		var position *engine.PositionError
		if errors.As(err, &position) {
			err = codec.Reject(codec.ReasonState, "%w", position)
		}
		var undone *engine.UndoneError
		if errors.As(err, &undone) && undone.Report != nil && len(undone.Report.Outstanding) > 0 {
			s.log.Error("effects of a saga that failed were not undone", "tool", t.Name, "saga", id.String(), "error", err)
		}
		return turn{}, &turnError{tool: t.Name, saga: id, err: err}
	}
	if out.Err != nil {
		// What the caller was told, the user's no above all, is no alarm.
		level, what := slog.LevelWarn, "tool failed"
		if out.Disclosed {
			level, what = slog.LevelInfo, "tool stopped"
		}
		s.log.Log(context.Background(), level, what, "tool", t.Name, "saga", id.String(), "error", out.Err)
	}
	if out.Position == nil {
		if err := s.sealUndo(c, t, out.Result); err != nil {
			return turn{}, &turnError{tool: t.Name, saga: id, err: err}
		}
		return turn{Outcome: *out}, nil
	}
	token, err := s.sealToken(c, t, args, out.Position)
	if err != nil {
		return turn{}, &turnError{tool: t.Name, saga: id, err: err}
	}
	return turn{token: token, steps: out.Steps}, nil
}

// sealToken turns a position into a token that only the same principal can use.
func (s *Server) sealToken(c caller, t *engine.Program, args json.RawMessage, p *engine.Position) (string, error) {
	now := s.opts.Now()
	claims := codec.Claims{
		ID: codec.ID(p.ID), Turn: p.Turn, IssuedAt: now, Deadline: p.Deadline,
		Tool: target(t), Revision: p.Revision,
	}
	if c.resends {
		digest, err := digestArguments(p.ID, args)
		if err != nil {
			return "", err
		}
		claims.Request = digest
		p.DropArguments()
	}
	token, err := s.codec.Seal(c.binding(), now, contents(claims, p.Encode()))
	var large *codec.TooLargeError
	if errors.As(err, &large) && large.Size-large.Limit <= mayBecome*c.brought {
		return "", &broughtError{large}
	}
	return token, err
}

// contents puts the parts of a position where they belong in a token: each part is kept
// from those that others have a hand in.
func contents(claims codec.Claims, p engine.Encoded) *codec.Contents {
	return &codec.Contents{Claims: claims, State: p.Body, Apart: p.State, Plain: p.Effects, Secret: p.Secrets}
}

// mayBecome is how many bytes of a token a byte of the request may well be the reason
// of: it is encoded, and the tool may have put it into the state besides.
const mayBecome = 8

// broughtError says that a saga cannot be suspended as the client has sent too much.
// With less of it the same request works.
type broughtError struct{ *codec.TooLargeError }

func (e *broughtError) Unwrap() error { return e.TooLargeError }

// sizeOf is what a request brings into a saga, in bytes.
func sizeOf(args json.RawMessage, answers []steps.Answer) int {
	n := len(args)
	for _, a := range answers {
		n += len(a.Result)
		if a.Error != nil {
			n += len(a.Error.Message) + len(a.Error.Data)
		}
	}
	return n
}

// target names what a token is for. A tool goes by its name, which holds no
// colon; the others say what they are.
func target(t *engine.Program) string {
	if t.Kind == engine.KindTool {
		return t.Name
	}
	return t.Kind.String() + ":" + t.Name
}

// digestArguments identifies the arguments of a saga, whatever their spelling.
//
// 16 bytes suffice because of the saga's id. It is no secret: texts of failures
// tell it. But it is drawn at random when the arguments of the first turn are
// there already, and with it their digest is fixed. So a client cannot look for
// two arguments with one digest (2⁶⁴ tries), only for others with a digest that
// is given (2¹²⁸), and for each saga from the beginning.
func digestArguments(id saga.ID, args json.RawMessage) ([]byte, error) {
	// Numbers stay as they are spelt: the canonical form rounds them to 64-bit floats,
	// and what the user approved for one account would then do for its neighbour.
	v, err := jsonview.Canonical(orEmpty(args), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(id[:])
	h.Write(v)
	return h.Sum(nil)[:16], nil
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// held reports that the tokens stay in the server: the request that drives a saga
// is all that can take its next turn.
func (c caller) held() bool { return c.purpose == purposeHeld }

func (c caller) binding() codec.Binding {
	return codec.Binding{Purpose: c.purpose, Principal: c.principal.binding()}
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
