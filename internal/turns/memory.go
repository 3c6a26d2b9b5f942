package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Memory remembers the turns of sagas that their clients drive, so that each is taken once, and what it did
// is undone when the client does not come back. Package durable is one.
type Memory interface {
	// CallOnce, ResumeOnce and CancelOnce take turns for [Runner.Call], [Runner.Resume] and
	// [Runner.Cancel]. id is that of the saga which begins with the call, and is set to that which the call's key has.
	CallOnce(ctx context.Context, q *Request, id *tokens.ID) (End, error)
	ResumeOnce(ctx context.Context, q *Request, o *Opened) (End, error)
	CancelOnce(ctx context.Context, q *Request, o *Opened) (End, error)
	// Identity tells the memory from all others.
	Identity(ctx context.Context) ([]byte, error)
	// Mark is what tells handles that were made for this memory: see [engine.Call].
	Mark(ctx context.Context) ([]byte, error)
	// Register notes, without waiting, that a saga of a principal's waits for the events of a position, and returns what has become of them, as
	// far as that is known.
	Register(ctx context.Context, principal string, p *engine.Program, pos *engine.Position) ([]steps.Answer, error)
	// HasGoneOn reports whether a saga of a principal's does not wait after so many turns any more: it has ended, as by an
	// operator, it is a task, or its next turn was begun.
	HasGoneOn(ctx context.Context, principal string, saga tokens.ID, turn uint32) (bool, error)
	// Withdraw takes back what others are asked at a position of a saga of a principal's which was cancelled, unless that continues
	// as a task.
	Withdraw(ctx context.Context, principal string, p *engine.Program, pos *engine.Position)
	// PutBlob keeps data of a principal's under an id that was drawn at random, on an account that may be empty (see [Sender]), and Blob returns it, or
	// nil if there is none any more.
	PutBlob(ctx context.Context, principal, account string, id [16]byte, data []byte, until time.Time) error
	Blob(ctx context.Context, principal string, id [16]byte) ([]byte, error)
}

// Remember has the turns of programs that demand it be remembered.
func (r *Runner) Remember(m Memory) { r.memory = m }

// Remembered is a turn that is remembered, while it is taken.
type Remembered interface {
	// Begun returns the time of the turn, and whether it was begun before and lost; then also what it had heard of events.
	Begun() (now time.Time, lost bool, events []steps.Answer)
	// Unrepeatable reports whether it cannot be taken again, so that what it did is undone at once if it breaks off.
	Unrepeatable() bool
	// Acting, Final, Begins and Undoing are as in [engine.Call].
	Acting(ctx context.Context) error
	Final(ctx context.Context, n int) error
	Begins(ctx context.Context, pos *engine.Position) error
	Undoing(ctx context.Context, u engine.Undoing) error
	// Did is called with where the saga stands when a turn ends, or with all that it has begun if that was its end, or an
	// error.
	Did(pos *engine.Position)
	// GoesOn is called when the turn continues from a position without its client. It returns the time of what comes then,
	// which is the same if that is taken again.
	GoesOn(pos *engine.Position, answers []steps.Answer) (now time.Time)
	// Heard is called before the turn takes what has become of the events of a position.
	Heard(p *engine.Program, pos *engine.Position, events []steps.Answer)
}

// SealUndo gives a result that says what could not be undone the token with which its client may try again.
func (r *Runner) SealUndo(ctx context.Context, principal string, p *engine.Program, end *End) error {
	if end.Result == nil || end.Result.Meta == nil {
		return nil
	}
	return r.sealUndo(ctx, &Request{Policy: Carried, Principal: principal}, p, end.Result)
}

// Repeated says that an error is what a turn was answered before.
func Repeated(p *engine.Program, saga tokens.ID, err error) error {
	return &Error{program: p.Name, kind: p.Kind, saga: saga, recorded: true, Err: err}
}

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
