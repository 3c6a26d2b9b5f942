package turns

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

// end turns the engine's outcome into the turn's: it seals the token that the client
// needs to go on, or to have tried again what could not be undone.
func (r *Runner) end(ctx context.Context, q *Request, of identity, out *engine.Outcome) (End, error) {
	if out.Err != nil {
		// What the caller was told, that the user declined above all, is no alarm.
		level, what := slog.LevelWarn, "tool failed"
		if out.Disclosed {
			level, what = slog.LevelInfo, "tool stopped"
		}
		r.Log.Log(ctx, level, what, "tool", of.program.Name, "saga", of.id.String(), "error", out.Err)
	}
	if out.Position == nil {
		return End{Outcome: *out}, r.sealUndo(q, of.program, out.Result)
	}
	token, err := r.Seal(q, of.program, out.Position)
	return End{Token: token, Outcome: *out}, err
}

// Seal turns a position of t into a token that only the same principal can use.
func (r *Runner) Seal(q *Request, t *engine.Program, p *engine.Position) (string, error) {
	now := r.Now()
	claims := codec.Claims{
		ID: codec.ID(p.ID), Turn: p.Turn, IssuedAt: now, Deadline: p.Deadline,
		Tool: target(t.Kind, p.Tool), Revision: p.Revision, Trace: q.Trace.claim(),
	}
	if q.Policy.Resent {
		digest, err := digestArguments(p.ID, q.Arguments)
		if err != nil {
			return "", err
		}
		claims.Request = digest
		p.DropArguments()
	}
	token, err := r.Codec.Seal(q.binding(), now, contents(claims, p.Encode()))
	if err == nil {
		return token, nil
	}
	var large *codec.TooLargeError
	if errors.As(err, &large) && large.Size-large.Limit <= maxExpansion*q.size() {
		return "", &RequestTooLargeError{large}
	}
	return "", err
}

// sealUndo gives a client the means to try an undo again that did not succeed: a
// token that can only be cancelled. Whatever the policy it carries everything, as that
// is what the method to cancel takes.
func (r *Runner) sealUndo(q *Request, t *engine.Program, result *content.Result) error {
	if result == nil {
		return nil
	}
	report, ok := result.Meta[engine.UndoMetaKey].(*engine.UndoReport)
	if !ok || report.Again == nil {
		return nil
	}
	carried := *q
	carried.Policy = Carried
	token, err := r.Seal(&carried, t, report.Again)
	report.SagaToken = token
	return err
}

// contents puts the parts of a position where they belong in a token: each part is kept
// from those that others have a hand in.
func contents(claims codec.Claims, p engine.Encoded) *codec.Contents {
	return &codec.Contents{Claims: claims, State: p.Body, Apart: p.State, Plain: p.Effects, Secret: p.Secrets}
}

func (q *Request) binding() codec.Binding {
	return codec.Binding{Purpose: q.Policy.Purpose, Principal: q.Principal}
}

// maxExpansion is how many bytes of a token a byte of the request can account for: it is
// encoded, and the tool may have put it into the state besides.
const maxExpansion = 8

// size is what a request brings into a saga, in bytes.
func (q *Request) size() int {
	n := len(q.Arguments)
	for _, a := range q.Answers {
		n += len(a.Result)
		if a.Error != nil {
			n += len(a.Error.Message) + len(a.Error.Data)
		}
	}
	return n
}

// target names what a token is for. A tool goes by its name, which holds no
// colon; the others say what they are.
func target(kind engine.Kind, name string) string {
	if kind == engine.KindTool {
		return name
	}
	return kind.String() + ":" + name
}

// digestArguments identifies the arguments of a saga, whatever their spelling.
//
// 16 bytes suffice because of the saga's id. It is no secret: texts of failures
// tell it. But it is drawn at random when the arguments of the first turn are
// there already, and with it their digest is fixed. So a client cannot look for
// two arguments with one digest (2⁶⁴ tries), only for others with a digest that
// is given (2¹²⁸), and for each saga from the beginning.
func digestArguments(id codec.ID, args json.RawMessage) ([]byte, error) {
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

// pending are the answers to what the saga waits for.
func pending(answers []steps.Answer, pos *engine.Position) []steps.Answer {
	ids := pos.PendingIDs()
	return slices.DeleteFunc(slices.Clone(answers), func(a steps.Answer) bool { return !slices.Contains(ids, a.StepID) })
}
