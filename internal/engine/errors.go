package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/mcpsaga/mcpsaga/steps"
)

// ToolError is a failure that the caller may read: its text becomes the result
// of the tool, marked as an error, and the saga ends. Authors make one with saga.Failf.
// Any other error that a step function returns is hidden from the caller (it
// may hold what only the operator should see) and goes to the server's log.
type ToolError struct {
	Text string
	// Err is the cause, for the log only, or nil.
	Err error
	// Disclosed says that Text tells the caller all of Err, as of an answer that was
	// declined: operators need not look. The engine sets it.
	Disclosed bool
}

// Error implements error.
func (e *ToolError) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *ToolError) Unwrap() error { return e.Err }

// StepFailure says in which step function of which tool something went wrong.
// It is for the log; the caller learns no more than that the tool failed.
type StepFailure struct {
	Tool, Step string
	// Err is what the code returned, or a *[PanicError].
	Err error
}

// Error implements error.
func (e *StepFailure) Error() string {
	return fmt.Sprintf("tool %q, step function %q: %v", e.Tool, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *StepFailure) Unwrap() error { return e.Err }

// PanicError is a panic in a tool's code, turned into an error.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error. It does not show the stack; log that separately.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Protect turns a panic of code that is not ours into an error.
func Protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	return f()
}

// recovered is the error of a panic. What [Turn.Together] panics with has the stack of the call that did.
func recovered(v any) *PanicError {
	if panicked, ok := v.(*PanicError); ok {
		return panicked
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// AnswerError says that the client's answers do not fit the saga. Nothing is
// lost: the same token can be resumed with correct answers.
type AnswerError struct {
	StepID string
	// Reason says what is wrong, for the client's author.
	Reason string
}

// Error implements error.
func (e *AnswerError) Error() string { return fmt.Sprintf("step %q: %s", e.StepID, e.Reason) }

// ArgumentsError says that the arguments do not fit. The caller of a tool reads it as
// the tool's result.
type ArgumentsError struct {
	Name string
	Err  error
}

// Error implements error.
func (e *ArgumentsError) Error() string {
	return fmt.Sprintf("the arguments do not fit %q: %v", e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *ArgumentsError) Unwrap() error { return e.Err }

// ErrNotFound is what a resource's code returns, wrapped or not, when there is
// nothing at the URI.
var ErrNotFound = errors.New("not found")

// UnsupportedError says that a step cannot be asked of this client, as the client
// lacks features. Nothing is lost: a client that has them can take the same turn.
type UnsupportedError struct {
	// Tool is the tool's name. StepID is the step that it wants to ask, or empty if
	// the tool needs the features for later.
	Tool, StepID string
	// Needs are the features that are needed, also those that the client has.
	Needs steps.Features
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	if e.StepID == "" {
		return fmt.Sprintf("tool %q needs a client with %v", e.Tool, e.Needs)
	}
	return fmt.Sprintf("tool %q cannot ask step %q: it needs a client with %v", e.Tool, e.StepID, e.Needs)
}

// UndoneError says that a turn that cannot be taken again broke off, and that
// the saga's effects were undone.
type UndoneError struct {
	Err error
	// Report says what was undone; nil if there was nothing to undo.
	Report *UndoReport
}

// Error implements error.
func (e *UndoneError) Error() string { return e.Report.appendTo(e.Err.Error()) }

// Unwrap returns why the turn broke off, and why effects could not be undone.
func (e *UndoneError) Unwrap() []error {
	if err := e.Report.Err(); err != nil {
		return []error{e.Err, err}
	}
	return []error{e.Err}
}

// PositionError says that a position cannot be resumed: it is not one that this
// tool wrote.
type PositionError struct {
	Tool string
	Err  error
}

// Error implements error.
func (e *PositionError) Error() string {
	return fmt.Sprintf("tool %q cannot resume from this position: %v", e.Tool, e.Err)
}

// Unwrap returns the cause.
func (e *PositionError) Unwrap() error { return e.Err }

// errNoOutcome is the cause if nothing is known of an effect but that it was begun.
var errNoOutcome = errors.New("it was begun, and nothing has come of it")

// UnsettledError says that a turn failed when a saga could neither end nor be
// undone: an irreversible effect may have been performed, or was performed and a
// later one may have been. Nothing is lost: the same turn can be taken again,
// which performs them with the same keys.
type UnsettledError struct {
	Tool, Effect string
	Err          error
}

// Error implements error.
func (e *UnsettledError) Error() string {
	return fmt.Sprintf("tool %q: it is not known whether the effect %q was performed: %v", e.Tool, e.Effect, e.Err)
}

// Unwrap returns the cause.
func (e *UnsettledError) Unwrap() error { return e.Err }

// EarlyError says that a saga sleeps: its position is not to be resumed before At. Nothing is
// lost, and the same turn can be taken then.
type EarlyError struct{ At time.Time }

// Error implements error.
func (e *EarlyError) Error() string {
	return "the saga sleeps until " + e.At.UTC().Format(time.RFC3339Nano) + "; come back then"
}

// latest is before when a saga must wake: tokens have no times after 2106, and outlive the sleep.
var latest = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

func checkSleep(call string, at time.Time) error {
	if at.Before(latest) {
		return nil
	}
	return fmt.Errorf("%s: the saga would sleep until the year %d, but none sleeps beyond 2099; sleep for less", call, at.UTC().Year())
}

// HaltedError says that a turn was ended before it did something, as Acting or Checkpoint of
// [Call] failed. The same turn can be taken again.
type HaltedError struct{ Err error }

// Error implements error.
func (e *HaltedError) Error() string { return "halted before acting: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *HaltedError) Unwrap() error { return e.Err }

// UnknownError is the cause of an error of an effect that may have been performed all
// the same.
type UnknownError struct {
	Effect string
	Err    error
}

// Error implements error.
func (e *UnknownError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }

// FinalError is the error of an Undo that comes too late.
type FinalError struct{ Err error }

// Error implements error.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FinalError) Unwrap() error { return e.Err }

// ErrNothingToUndo is the undo of an effect that has none.
var ErrNothingToUndo = errors.New("there is nothing to undo")

// SwallowedError says that a flow went on after it had asked, yielded or gone to sleep: it
// did not return the error that it got.
type SwallowedError struct {
	// Did says what it had done, such as which questions it had asked; Doing is the verb.
	Did, Doing string
	// Returned is what the flow returned instead, or nil if it returned a result.
	Returned error
}

// Error implements error.
func (e *SwallowedError) Error() string {
	instead := "a result"
	if e.Returned != nil {
		instead = fmt.Sprintf("the error %q", e.Returned)
	}
	return fmt.Sprintf("the flow %s and then returned %s; it must return the error that %s returned, as it is or wrapped with %%w", e.Did, instead, e.Doing)
}

// DivergedError says that a flow that ran again did not do what it had done
// before: it left out something that is recorded, or did something new before it, or
// gave an effect another input. It depends on something that has changed: take time,
// ids and random numbers from the Run, and let everything else that may change be an
// effect. Or the code is another one: raise the Revision. The run is stopped before
// anything new is performed, whatever the flow does with the error.
type DivergedError struct {
	// Recorded is what the flow did before, Came what it did now.
	Recorded, Came string
	// Step is the step function of a machine, which went on from a checkpoint; empty for a
	// flow.
	Step string

	input bool // It is an effect's input, which a new revision has to keep, too.
}

// Error implements error.
func (e *DivergedError) Error() string {
	if e.input && e.Step == "" {
		return fmt.Sprintf("the flow diverges from its record: recorded is %s, but now came %s; the n-th performance of an effect keeps its input, also in a new revision, so time, ids and random numbers must come from the Run, and what the code performs anew comes after what it performed before", e.Recorded, e.Came)
	}
	if e.Step != "" {
		return fmt.Sprintf("the step function %q goes on from a checkpoint and diverges from its record: recorded is %s, but now came %s; which effects it performs must depend on nothing but arguments, state, answers and Now, and a changed one needs a new Revision", e.Step, e.Recorded, e.Came)
	}
	return fmt.Sprintf("the flow diverges from its record: recorded is %s, but now came %s; time, ids and random numbers must come from the Run; if the code asks or does anything differently than before, raise the tool's Revision", e.Recorded, e.Came)
}
