// Package tasks says what a task is to those who look at it: [Task], [Event], and the [Viewer] that
// package durable is. A task is a saga whose turns servers take, one after the other.
//
// A task whose client waits for it is a call (see [Start].Delay): it may be of any program, leaves
// nothing in the ledger if it ends soon and has done nothing, and needs no worker.
package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Errors of a [Viewer]. Those of package turns come as well: [turns.ErrLedger] above all.
var (
	// ErrNotFound: there is no such task, or not any more, or it is another principal's.
	ErrNotFound = errors.New("there is no such task")
	// ErrExists: the id that the client has chosen is in use.
	ErrExists = errors.New("there is a task of that id")
	// ErrCursor: what a client gives as a place in a list is none.
	ErrCursor = errors.New("the cursor is not one that this list gave")
	// ErrTooMany: the caller has as many tasks under way as it may have.
	ErrTooMany = errors.New("the caller has too many tasks under way")
)

// Status is how far a task is.
type Status uint8

// The statuses of a task. The last three are final.
const (
	// Queued: no worker has taken it yet.
	Queued Status = iota
	// Working: it runs, or sleeps.
	Working
	// InputRequired: it waits for answers to Task.Questions.
	InputRequired
	// Completed: it has ended with a result, which may say that the tool failed.
	Completed
	// Failed: it has ended with an error instead of a result.
	Failed
	// Cancelled: it was cancelled, and what it did is undone, up to what is final.
	Cancelled
)

// Ended reports whether the task has ended.
func (s Status) Ended() bool { return s >= Completed }

// Task is a task as it stands.
type Task struct {
	// ID names it among those of its principal.
	ID string
	// Program is what it is of; nil if this server does not have that any more.
	Program *engine.Program
	// Saga is the saga's id, for logs.
	Saga [16]byte
	// Note is what the dialect that began it wants to know again.
	Note json.RawMessage
	// Created and Updated are when it was created and has last changed as a client sees it.
	Created, Updated time.Time
	// Now is the store's time when the task was read, or a little later.
	Now time.Time
	// TTL is how long the task and its result are kept from Created on; zero is without end.
	TTL time.Duration
	// Poll is how often a client should look.
	Poll time.Duration

	Status Status
	// Rests: nothing happens until it is answered, an event comes, or it is time.
	Rests bool
	// Cancelling: a client wants it cancelled. It may have come to its end all the same.
	Cancelling bool
	// Final: a client wanted it cancelled, and that was too late: what it did is final, so it continues. Of one that
	// has ended badly: not all is undone, as some of what it did is final.
	Final bool
	// Message tells people about the status; may be empty. Of a task that has ended it says how.
	Message string
	// Bad: the task is Completed with a result that says that the tool has failed.
	Bad bool
	// Progress is what the tool said last; nil if it said nothing.
	Progress *engine.Progress
	// Questions are what the task waits for, under ids that never come again in this task.
	Questions []steps.Step
	// Numbers are those of Questions among all that the task has asked, from 1 on.
	Numbers []uint64
	// Awaits are the events that it waits for besides.
	Awaits []Awaited
	// Happened are the events that have come, by what it calls them.
	Happened []string
	// Given are the last answers that the task was given.
	Given []Given
	// End is the result of a task that is Completed. Of one that is Cancelled it is what was
	// undone, if it had done anything.
	End *turns.End
	// Err is why the task is Failed: an error as [turns.Runner] has them, without what only
	// the operator may see.
	Err error
	// Events is the number of the newest event.
	Events uint64

	// Rev grows with each change; see [Viewer].
	Rev uint64
	// Found is what the viewer has read, for [Viewer.AnswerFound].
	Found any
}

// Awaited is an event that a saga waits for: the question that it is, by what name it is delivered, and until when it is
// waited for. ID is that of its answer. It is kept in records: the numbers of fields are never used again.
type Awaited struct {
	ID       string    `cbor:"1,keyasint"`
	Event    [16]byte  `cbor:"2,keyasint"`
	Until    time.Time `cbor:"3,keyasint"`
	Message  string    `cbor:"4,keyasint"`
	Question string    `cbor:"5,keyasint"`
	// Asked is what others are asked, and Place where they answer; nil if it is an event.
	Asked []byte        `cbor:"6,keyasint,omitempty"`
	Place *engine.Place `cbor:"7,keyasint,omitempty"`
	// Row is that of the saga, if its handle names it.
	Row [16]byte `cbor:"8,keyasint,omitzero"`
}

// Given is an answer that a task was given: the number of its question, and what [Sum] makes of it.
type Given struct {
	Number uint64
	Sum    [8]byte
}

// Start is what a task is begun with.
type Start struct {
	// Request is the call: its principal, program, arguments and what the client can do. If
	// it has a token the task continues from there, with the answers.
	Request turns.Request
	// Account is on whose account the task counts; empty: the principal's.
	Account string
	// Shared: callers that the server cannot distinguish have the same account. So that one of them
	// cannot take all of it for long, a task that is begun when more than half is taken continues only
	// while a client looks at it.
	Shared bool
	// ID is what the client calls the task; empty: it gets one that cannot be guessed.
	ID string
	// AtOnce has the task begin with the call, whatever its program says: what comes before
	// the task's question After is asked in the task as well.
	AtOnce bool
	// Delay, if it is positive, makes the task a call, of any program: its client waits for it, so it runs at once in this
	// process, also after an answer that came here, and takes no worker's place. It gets a record when it asks, before it
	// performs an effect, when it tells something that Request.Notifier is not there for, and at the latest after Delay,
	// which is tried again while the ledger fails. Until then nothing that it does has an effect, and the end of the caller's
	// context ends it: [Viewer.Start] then returns its end, without an ID, or its error, as [turns.Runner.Call] does. Calls
	// are neither counted nor listed among their principal's tasks: [ErrTooMany] is for those that need a record where as
	// many are under way as the ledger's limit says. Delay does nothing if the Request has a Token.
	Delay time.Duration
	// TTL is how long the client wants the task to be kept; zero: as the program says.
	TTL time.Duration
	// Patience is for how long the task continues without a [Viewer.Renew], which shows that a client
	// still wants it; then it ends as when its TTL is over. Zero: as long as it takes.
	Patience time.Duration
	// Session is the session that the call ends with: see [Viewer.EndSession]. Empty: it outlives its session.
	Session string
	// Note is kept with the task.
	Note json.RawMessage
	// Keep is how long the task is kept at least after its end, if that is longer than its
	// program says. A call is kept for as long, whatever its program says; zero is a minute.
	Keep time.Duration
}

// IsCall reports whether a client waits for it: see Delay.
func (s *Start) IsCall() bool { return s.Delay > 0 }

// Event is what a task has told while it worked: Progress, or Log. N is its number among all that has happened to the task,
// which counts from 1 on. Old ones may be left out when there are many.
type Event struct {
	N        uint64
	Progress *engine.Progress
	Log      *engine.Log
}

// News is what [Viewer].Follow yields: an event, the task as it is after all events so far, or neither.
type News struct {
	Event *Event
	Task  *Task
}

// NoEvents is after all events there may be.
const NoEvents = math.MaxUint64

// Viewer is a dialect's way to tasks. The core of package durable is one.
type Viewer interface {
	// Start begins a task, which is durable when it returns. It fails with [ErrExists] and
	// [ErrTooMany], and as [turns.Runner.Call] does. If the saga ends or asks before the
	// task begins (see saga.Tasks.After) there is no task, but an end: a Task without an ID,
	// whose End has it, with its Token and Steps if it asks. What is begun from a token, or with
	// an idempotency key, is the same task when it is begun again, unless the client chooses the ID.
	Start(ctx context.Context, s Start) (*Task, error)
	// Get returns a task of the principal's, or [ErrNotFound].
	Get(ctx context.Context, principal, id string) (*Task, error)
	// Follow yields what comes of the task: each event with a number greater than after, in order, and
	// after those the task as it stands, first of all and whenever it has changed. Whenever the time is there that wake says, if that is not nil, it yields
	// News of nothing. It ends after a task that has ended, or with an error. Who wants no events says
	// that after is [NoEvents].
	Follow(ctx context.Context, principal, id string, after uint64, wake func() time.Time) iter.Seq2[News, error]
	// Parts returns all parts of its result that the task has yielded.
	Parts(ctx context.Context, principal, id string) (content.Blocks, error)
	// Answer gives a task answers to its questions. Those to others are ignored; those that
	// cannot be read fail with an *[engine.AnswerError], and none is taken.
	Answer(ctx context.Context, principal, id string, answers []steps.Answer) (*Task, error)
	// AnswerFound is Answer for a task that was found just now, which is not looked for again. It
	// returns nil if answers were taken, and the task as it is if none was.
	AnswerFound(ctx context.Context, principal string, t *Task, answers []steps.Answer) (*Task, error)
	// Cancel has a task end as soon as it can, with what it did undone. One that has ended
	// stays as it is.
	Cancel(ctx context.Context, principal, id string) (*Task, error)
	// EndSession cancels the calls of the principal that were begun with that Session. It may be called again
	// after an error.
	EndSession(ctx context.Context, principal, session string) error
	// Renew shows that a client still wants the task, if it was begun with a Patience: that,
	// or how long the result is kept, counts from now on again. change, if it is not nil,
	// returns what is to be kept with the task instead of its note; who watches the task sees it.
	Renew(ctx context.Context, principal, id string, patience time.Duration, change func(note json.RawMessage) json.RawMessage) (*Task, error)
	// List returns tasks of the principal's, in an order of no meaning, at most limit of them.
	// next is what to give as after for more; empty if there are none. They have no End. What cannot
	// be read is left out and logged. It fails with [ErrCursor] if after is no next.
	List(ctx context.Context, principal, after string, limit int) (list []*Task, next string, err error)
}

// FailedError is why a task has failed, with a text that its client may read.
type FailedError struct{ Text string }

// Error implements error.
func (e *FailedError) Error() string { return e.Text }

// Sum is what is kept of an answer, by which it is known again when it is sent twice.
func Sum(a steps.Answer) (sum [8]byte) {
	h := sha256.New()
	h.Write(a.Result)
	if a.Error != nil {
		h.Write([]byte{0})
		_ = json.NewEncoder(h).Encode(a.Error)
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// Offered reports whether any of the programs may be a task.
func Offered(r *engine.Registry) bool {
	return slices.ContainsFunc(r.Of(engine.KindTool), func(newest *engine.Program) bool {
		return slices.ContainsFunc(r.Revisions(engine.KindTool, newest.Name), func(p *engine.Program) bool { return p.Tasks.Mode != engine.TasksForbidden })
	})
}
