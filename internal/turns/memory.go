package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/lazyctx"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Memory remembers the turns of sagas that their clients drive, so that each is taken once, and what it did
// is undone when the client does not come back. Package durable is one.
type Memory interface {
	// CallOnce, ResumeOnce and CancelOnce take turns for [Runner.Call], [Runner.Resume] and
	// [Runner.Cancel]. id is set to the saga whose turn it was.
	CallOnce(ctx context.Context, q *Request, id *tokens.ID) (End, error)
	ResumeOnce(ctx context.Context, q *Request, o *Opened) (End, error)
	CancelOnce(ctx context.Context, q *Request, o *Opened) (End, error)
	// Identity tells the memory from all others.
	Identity(ctx context.Context) ([]byte, error)
	// PutBlob keeps data of a principal's under an id that was drawn at random, and Blob returns it, or
	// nil if there is none any more.
	PutBlob(ctx context.Context, principal string, id [16]byte, data []byte, until time.Time) error
	Blob(ctx context.Context, principal string, id [16]byte) ([]byte, error)
}

// Remember has the turns of programs that demand it be remembered.
func (r *Runner) Remember(m Memory) { r.memory = m }

// Remembered is a turn that is remembered, while it is taken.
type Remembered interface {
	// Begun returns the time of the turn, whether what it did is undone at once if it breaks off, as it
	// cannot be taken again, and whether it was begun before and lost.
	Begun() (now time.Time, held, lost bool)
	// Acting and Undoing are as in [engine.Call].
	Acting(ctx context.Context) error
	Undoing(ctx context.Context, u engine.Undoing) error
	// GoesOn is called when the turn continues from a position without its client.
	GoesOn(pos *engine.Position, answers []steps.Answer)
	// Abandon is called when the saga is undone instead.
	Abandon(ctx context.Context) error
}

// Opened is a token that was opened.
type Opened = opened

// Open makes what a token would hold that stands for a position. arguments are nil if the position has them.
func Open(p *engine.Program, pos *engine.Position, arguments json.RawMessage) *Opened {
	return &opened{identity: identity{p, tokens.ID(pos.ID)}, pos: pos, arguments: arguments}
}

// Program is what the token is of, Saga its saga, and Position where that stands.
func (o *opened) Program() *engine.Program   { return o.program }
func (o *opened) Saga() tokens.ID            { return o.id }
func (o *opened) Position() *engine.Position { return o.pos }

// Gone is why the saga cannot go on; nil if it can.
func (o *opened) Gone() *tokens.Rejected { return o.gone }

// Expires is until when the token is good.
func (o *opened) Expires() time.Time { return o.expires }

// TooLate reports whether the saga cannot go on, and has done nothing, as far as the token tells.
func (o *opened) TooLate() bool { return o.tooLate() }

// Begin returns the context of a turn.
func (r *Runner) Begin(ctx context.Context) *lazyctx.Context { return r.begin(ctx) }

// StartRemembered takes the first turn of a saga that is remembered, and ResumeRemembered a later one.
func (r *Runner) StartRemembered(ctx context.Context, q *Request, saga tokens.ID, m Remembered) (End, error) {
	return r.start(ctx, q, identity{q.Program, saga}, m)
}

// ResumeRemembered is [Runner.StartRemembered] for the turn after an opened token.
func (r *Runner) ResumeRemembered(ctx context.Context, q *Request, o *Opened, m Remembered) (End, error) {
	return r.goFrom(ctx, q, o, m)
}

// SealUndo gives a result that says what could not be undone the token with which its client may try again.
func (r *Runner) SealUndo(ctx context.Context, principal string, p *engine.Program, end *End) error {
	if end.Result == nil || end.Result.Meta == nil {
		return nil
	}
	return r.sealUndo(ctx, &Request{Policy: Carried, Principal: principal}, p, end.Result)
}

// Failed says of which saga an error is.
func (r *Runner) Failed(p *engine.Program, saga tokens.ID, err error) error {
	return r.failed(identity{p, saga}, err)
}

// Repeated says that an error is what a turn was answered before.
func Repeated(p *engine.Program, saga tokens.ID, err error) error {
	return &Error{program: p.Name, kind: p.Kind, saga: saga, recorded: true, Err: err}
}

// EncodeResponse encodes how a turn ended, err being an error for which [EndsWith] holds.
func EncodeResponse(end *End, err error) ([]byte, error) { return encodeResponse(end, err) }

// DecodeResponse returns what [EncodeResponse] has encoded: an end, or how a prompt or a resource
// failed.
func DecodeResponse(raw []byte) (end End, failure, err error) { return decodeResponse(raw) }

// PolicyNamed returns the policy with that purpose.
func PolicyNamed(purpose string) Policy { return policyNamed(purpose) }

// KnownTo reports whether the token of an end that was recorded is of use to the client that asks for it now.
func (q *Request) KnownTo(end *End) bool { return q.knownTo(end) }

// UnderWay is why another request's turn is not waited for any longer.
func UnderWay(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrUnderWay
	}
	return fmt.Errorf("while another request takes the turn: %w", context.Cause(ctx))
}

// A memory tries to undo what sagas did for UndoFor, and shows operators what is outstanding for
// KeepOutstanding after that.
const (
	UndoFor         = 14 * 24 * time.Hour
	KeepOutstanding = 30 * 24 * time.Hour
)

// undoTime bounds what is remembered of an undo although nothing waits for it any more.
const undoTime = 10 * time.Second
