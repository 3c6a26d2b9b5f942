package turns

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// Opened is an authentic token: the position it holds and what continues from it.
type Opened struct {
	Identity
	Position *engine.Position
	// Gone is why the saga cannot go on, so that what it did is to be undone: its token came too
	// late, its revision is no longer served, or the tool has no longer what it waits in. It is nil
	// if the saga can go on. Of effects that the token does not know, the ledger may.
	Gone *tokens.Rejected
	// Expires is when the token is good no longer.
	Expires time.Time
	// Arguments are the tool's, if neither the position nor the client's request has them.
	Arguments json.RawMessage

	issued time.Time
}

// open returns what a token holds, if a turn can be taken from there or its saga is to be
// undone, and sets q.Trace. Errors are of those that [Error] lists.
//
// toCancel: the saga is to be undone, which needs no permission, and no clock that is right. Without
// answers no turn is taken before that, so the arguments of the first turn, where requests repeat
// them, do not matter either.
func (r *Runner) open(ctx context.Context, q *Request, toCancel bool) (*Opened, error) {
	x, late, err := r.authentic(q)
	if err != nil {
		return nil, err
	}
	var early *tokens.Rejected
	if late != nil && late.Reason == tokens.ReasonNotYetValid {
		early, late = late, nil
	}
	if late != nil && !r.undoable(q, &x.Claims) {
		return nil, tokens.Reject(late.Reason, "%w, which is too long ago even to undo what the saga did", late.Detail)
	}
	reader, newest := r.Registry.Reader(x.Claims.Tool, x.Claims.Revision)
	if newest == nil || q.Program != nil && q.Program.Target != x.Claims.Tool {
		return nil, tokens.Reject(tokens.ReasonTool, "the token is for %q, which is not what was called or not served here", x.Claims.Tool)
	}
	if q.Named != "" && q.Named != newest.Name {
		return nil, tokens.Reject(tokens.ReasonTool, "the token is for %q, but the request's header says %q", x.Claims.Tool, q.Named)
	}
	o := &Opened{Identity: Identity{reader, x.Claims.ID}, Gone: late, Expires: x.Claims.ExpiresAt, issued: x.Claims.IssuedAt}
	if o.Position, err = r.restore(ctx, q, newest, &x); err != nil {
		return nil, err
	}
	takesTurn := !toCancel || o.Position.Sent(q.Answers)
	if q.Policy.Resent && takesTurn {
		digest, err := digestArguments(o.Saga, q.Arguments)
		if err != nil || string(digest) != string(x.Claims.Request) {
			return nil, tokens.Reject(tokens.ReasonRequest, "the arguments are not those of the first turn")
		}
	}
	if reader == nil { // nothing that is served reads that revision
		if x.Claims.Revision > newest.Revision {
			return nil, ErrNewer
		}
		o.Program = newest
		o.Gone = tokens.Reject(tokens.ReasonRevision, "the token is of revision %d of %q, which is no longer served", x.Claims.Revision, newest.Name)
	}
	if o.Gone != nil && !o.Position.HasEffects() && !r.remembers(o.Program) {
		return nil, o.Gone // there is nothing to undo; a ledger may know of its end
	}
	q.Trace = Trace{}
	if len(x.Claims.Trace) == len(q.Trace) {
		copy(q.Trace[:], x.Claims.Trace)
	}
	if !toCancel && o.Gone == nil {
		if err := r.Permitted(ctx, o.Program); errors.Is(err, ErrHidden) {
			return nil, tokens.Reject(tokens.ReasonTool, "the token is for %q: %w", o.Program.Name, err)
		} else if err != nil {
			return nil, &Error{program: o.Program.Name, kind: o.Program.Kind, saga: o.Saga, Err: err}
		}
	}
	// A held token never left this process: nothing depends on its clock.
	if early != nil && !toCancel && q.Policy.Purpose != Held.Purpose { // hooks learn whose turn it was
		return o, &Error{program: o.Program.Name, kind: o.Program.Kind, saga: o.Saga, Err: fmt.Errorf("%w: %v", ErrEarly, early.Detail)}
	}
	return o, nil
}

// authentic opens the token of a request. untimely is why its time is over, or has not come.
func (r *Runner) authentic(q *Request) (x tokens.Contents, untimely *tokens.Rejected, err error) {
	x, untimely, err = r.Codec.OpenAnyTime(tokens.Binding{Purpose: q.Policy.Purpose, Principal: q.Principal}, r.Now(), q.Token)
	if err == nil {
		return x, untimely, nil
	}
	var rejected *tokens.Rejected
	if errors.As(err, &rejected) && (rejected.Reason == tokens.ReasonFormat || rejected.Reason == tokens.ReasonTooLarge) {
		// It is authentic: a replica whose program is newer knows how to read it.
		err = fmt.Errorf("%w, or %v", ErrNewer, rejected.Detail)
	}
	return x, untimely, err
}

// undoable reports whether what the saga of a token has done is still undone, though that has expired.
func (r *Runner) undoable(q *Request, claims *tokens.Claims) bool {
	last := claims.ExpiresAt.Add(r.Codec.Options().Skew + max(r.UndoGrace, 0))
	return q.Policy.UndoBroken || r.UndoGrace >= 0 && r.Now().Before(last)
}

// restore returns the position that a token holds, of a saga that this server looks after.
func (r *Runner) restore(ctx context.Context, q *Request, newest *engine.Program, x *tokens.Contents) (pos *engine.Position, err error) {
	pos = &engine.Position{
		ID: x.Claims.ID, Turn: x.Claims.Turn, Tool: newest.Name, Revision: x.Claims.Revision,
		Deadline: x.Claims.Deadline,
	}
	parts := engine.Encoded{Body: x.State, State: x.Apart, Effects: x.Plain, Secrets: x.Secret}
	if len(x.State) == 0 && KeptApart(x) {
		parts, err = r.partsApart(ctx, q.Principal, x.Secret)
	}
	if err == nil {
		if err := pos.Restore(parts); err != nil {
			return nil, tokens.Reject(tokens.ReasonState, "%w", err)
		}
		if len(pos.Ledger) > 0 {
			err = r.ofThisLedger(ctx, pos)
		}
	}
	if err != nil {
		return nil, &Error{program: newest.Name, kind: newest.Kind, saga: pos.ID, Err: err}
	}
	return pos, nil
}

// ofThisLedger fails if another ledger looks after what the saga has done: it would never learn how
// the saga ends here, and undo it.
func (r *Runner) ofThisLedger(ctx context.Context, pos *engine.Position) error {
	if r.memory == nil {
		return ErrOtherLedger
	}
	id, err := r.memory.Identity(ctx)
	if err == nil && !bytes.Equal(id, pos.Ledger) {
		err = ErrOtherLedger
	}
	return err
}

// TooLate reports whether the saga cannot go on, and has done nothing, as far as the token tells.
func (o *Opened) TooLate() bool { return o.Gone != nil && !o.Position.HasEffects() }

// abandon undoes the effects of a saga that cannot go on from pos.
func (r *Runner) abandon(ctx context.Context, q *Request, of Identity, pos *engine.Position, gone *tokens.Rejected, m Remembered) (End, error) {
	r.logAbandoned(ctx, of, gone)
	c := engine.Call{Why: GoneText(gone.Reason)}
	if m != nil {
		if err := m.Acting(ctx); err != nil {
			return End{}, r.Failed(of, err)
		}
		// Should the server die meanwhile, the turn ends so all the same.
		over := engine.Outcome{Result: content.Resultf("%s", c.Why)}
		over.Result.IsError = true
		c.Acting, c.Undoing = m.Acting, func(ctx context.Context, u engine.Undoing) error {
			u.Outcome = &over
			return m.Undoing(ctx, u)
		}
	}
	turn := r.Begin(ctx)
	defer turn.Cancel()
	out, err := of.Program.Abandon(turn, pos, c)
	undone := *q
	undone.Policy.UndoBroken = false // no turn comes after it
	end, err := r.finish(turn, &undone, of, out, err, false, m)
	if err == nil {
		end.Gone = gone.Reason
	}
	return end, err
}

func (r *Runner) logAbandoned(ctx context.Context, of Identity, gone *tokens.Rejected) {
	r.Log.Log(ctx, levelOf(gone.Reason), "saga abandoned", "tool", of.Program.Name, "saga", of.Saga.String(), "token", gone)
}

// GoneText says why a saga cannot go on.
func GoneText(why tokens.Reason) string {
	switch why {
	case tokens.ReasonRevision:
		return "The saga cannot go on: this version of the tool is no longer served. Start again."
	case tokens.ReasonState:
		return "The saga cannot go on: the tool has changed since it began. Start again."
	}
	if why == ReasonOperator {
		return "The server's operator has ended the saga."
	}
	return "The saga came back too late and has ended."
}

// ReasonOperator: an operator wanted a saga undone, though its client was in time.
const ReasonOperator tokens.Reason = "cancelled"

// Seal turns a position of t into a token that only the same principal can use. It changes p: arguments that the client sends
// again are dropped, and Ledger is set.
func (r *Runner) Seal(ctx context.Context, q *Request, t *engine.Program, p *engine.Position) (string, error) {
	now := r.Now()
	claims := tokens.Claims{
		ID: tokens.ID(p.ID), Turn: p.Turn, IssuedAt: now, Deadline: p.Deadline,
		Tool: t.Target, Revision: p.Revision,
	}
	if !p.Rests().IsZero() {
		claims.ExpiresAt = r.expires(p)
	}
	if q.Trace != (Trace{}) { // none is no claim, and changes no token
		claims.Trace = slices.Clone(q.Trace[:])
	}
	if q.Policy.Resent {
		args := q.Arguments
		if args == nil { // [Runner.Drive] drops them, as its tokens have them; with the token of a part the client sends them again
			args = p.Arguments()
		}
		digest, err := digestArguments(p.ID, args)
		if err != nil {
			return "", err
		}
		claims.Request = digest
		p.DropArguments()
	}
	p.Ledger = nil
	if r.remembers(t) && p.HasEffects() {
		id, err := r.memory.Identity(ctx)
		if err != nil {
			return "", err
		}
		p.Ledger = id
	}
	parts := p.Encode() // Body and State are compressed, each by itself, the others not: [engine.Encoded] says why
	binding := tokens.Binding{Purpose: q.Policy.Purpose, Principal: q.Principal}
	if t.ShortTokens && r.memory != nil {
		return r.sealApart(ctx, binding, claims, parts, p.HasEffects(), q.Account())
	}
	token, err := r.Codec.Seal(binding, now, &tokens.Contents{
		Claims: claims, State: parts.Body, Apart: parts.State, Plain: parts.Effects, Secret: parts.Secrets,
	})
	if r.memory != nil && tooLong(err) {
		token, err = r.sealApart(ctx, binding, claims, parts, p.HasEffects(), q.Account())
	}
	if err == nil {
		return token, nil
	}
	var large *tokens.TooLargeError
	if errors.As(err, &large) && large.Size-large.Limit <= maxExpansion*q.size() {
		return "", &RequestTooLargeError{large}
	}
	return "", err
}

// sealUndo gives a client the means to try an undo again that did not succeed: a
// token that can only be cancelled. Whatever the policy it carries everything, as that
// is what the method to cancel takes.
func (r *Runner) sealUndo(ctx context.Context, q *Request, t *engine.Program, result *content.Result) error {
	report := UndoReport(result)
	if report == nil || report.Again == nil {
		return nil
	}
	carried := *q
	carried.Policy = Carried
	token, err := r.Seal(ctx, &carried, t, report.Again)
	report.SagaToken = token
	return err
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

// digestArguments identifies the arguments of a saga, whatever their spelling. 16 bytes suffice because of the saga's id:
// it is drawn at random when the arguments are there already, so a client cannot look for two arguments with one digest
// (2⁶⁴ tries), only for others with a digest that is given (2¹²⁸), and for each saga from the beginning.
func digestArguments(id tokens.ID, args json.RawMessage) ([]byte, error) {
	// Numbers stay as they are spelt: the canonical form rounds them to 64-bit floats,
	// and what the user approved for one account would then do for its neighbour.
	v, err := jsonview.Canonical(OrEmpty(args), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(id[:])
	h.Write(v)
	return h.Sum(nil)[:16], nil
}

// OrEmpty returns the arguments of a call, which are an empty object if there are none.
func OrEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}
