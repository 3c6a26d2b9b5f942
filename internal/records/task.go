package records

import (
	"time"

	"github.com/mcpsaga/mcpsaga/internal/fields"
)

// TaskState says what a task does when nobody runs it.
type TaskState uint8

// The states of a task. That it is being run is not written: its record is then taken.
const (
	TaskQueued TaskState = iota
	TaskWaiting
	TaskSleeping
	TaskEnded
)

// Task is what is remembered of a task. What is only bytes here is encoded by those who drive
// tasks.
type Task struct {
	TaskIdentity
	TaskRuns
	TaskTimes
	TaskSaga
	TaskNews
	TaskEnding

	// unknown are fields of newer programs.
	unknown []byte
}

// TaskIdentity says which task it is, and whose. It is settled when the task is made, but for Note.
type TaskIdentity struct {
	// Target is what it is a task of, ID its id among those of Principal, and Saga that
	// of the saga.
	Target    Target
	ID        string
	Principal string
	// Account is on whose account it counts; empty: the principal's.
	Account string
	Saga    [16]byte
	// Call: a client waits for it, so it goes on where its answer arrives. It is neither counted
	// among its principal's tasks nor listed.
	Call bool
	// Request is what it was begun with, Note what the dialect wants to know again,
	// and Digest identifies the call if that had an idempotency key.
	Request, Note, Digest []byte
}

// TaskRuns says who runs the task, and what became of those who have.
type TaskRuns struct {
	// State is where it stands, and Status how it has ended.
	State  TaskState
	Status uint8
	// Writes counts the swaps that wrote the record and did not take it, and Marks those of
	// them that were its worker's.
	Writes, Marks uint64
	// Rest is the record's Wake when it was put to rest; zero if whoever wrote it last runs it.
	Rest time.Time
	// Base is the epoch at which it was put to rest, or came further: what the present epoch
	// has beyond that is how often it was tried since. Loose: somebody has begun to go on
	// from where it stands, and may have done more than is known.
	Base  uint64
	Loose bool
	// Failures counts the tries that have failed since, the last one with LastError.
	Failures  uint64
	LastError string
}

// TaskTimes says when the task does what. Times that are zero are never.
type TaskTimes struct {
	// Created and Updated are when it was made and has last changed for those who look at it;
	// Seen counts these changes. Due is when it is to have ended, WakeAt until when it sleeps,
	// and Keep until when it is to be kept at least.
	Created, Updated, Due, WakeAt, Keep time.Time
	Seen                                uint64
	// Wanted is until when it goes on though nobody has shown that it is still wanted; zero: as
	// long as it takes.
	Wanted time.Time
	// TTL, Poll and Retain (after its end) are what was settled when it was made.
	TTL, Poll, Retain time.Duration
}

// TaskSaga says where the saga of the task stands.
type TaskSaga struct {
	// Position is where; nil before its first turn. Questions are open there, and Answers have
	// come. Asked counts the questions so far, with those.
	Position, Questions, Answers []byte
	Asked                        uint64
	// Given are the last answers, as those who drive tasks know them again.
	Given []byte
}

// TaskNews is what clients are told of the task while it goes on.
type TaskNews struct {
	// Message is for people. Progress is what the tool said last.
	Message  string
	Progress []byte
	// Events is the number of the newest event; Told counts those of progress and log,
	// Appended those of the dialect, and Size is how many bytes they and the rest have but for Told.
	Events, Told, Appended, Size uint64
}

// TaskEnding says how the task ends: how it is cancelled and undone, and what comes of it.
type TaskEnding struct {
	// Cancelled: a client wants it cancelled. TooLate: it cannot be, as what it did is final.
	Cancelled, TooLate bool
	// Undo says what is being undone, and why; nil if nothing is.
	Undo []byte
	// End is how it has ended, and Again where what could not be undone is tried again. Said tells
	// people how it has ended, and Bad whether its result says that the tool has failed; Judged: that
	// is known.
	End, Again  []byte
	Said        string
	Judged, Bad bool
}

// Over is when the task is to be ended if it has not by then: the earlier of Due and Wanted;
// zero: never.
func (t *TaskTimes) Over() time.Time {
	if t.Due.IsZero() || !t.Wanted.IsZero() && t.Wanted.Before(t.Due) {
		return t.Wanted
	}
	return t.Due
}

// fields are those of a task. Their numbers are never used again.
func (t *Task) fields() [49]any {
	return [...]any{
		1: &t.Target.Name, &t.Target.Revision, &t.ID, &t.Principal, &t.Saga, // 5
		(*uint8)(&t.State), &t.Status, &t.Writes, &t.Marks, &t.Rest, // 10
		&t.Base, &t.Loose, &t.Failures, &t.LastError, &t.Created, // 15
		&t.Updated, &t.Due, &t.WakeAt, &t.Keep, &t.Seen, // 20
		&t.TTL, &t.Poll, &t.Retain, &t.Cancelled, &t.Message, // 25
		&t.Progress, &t.Events, &t.Told, &t.Size, &t.Request, // 30
		&t.Note, &t.Digest, &t.Position, &t.Questions, &t.Answers, // 35
		&t.End, &t.Again, &t.Wanted, &t.Call, &t.Asked, // 40
		&t.Given, &t.Undo, &t.TooLate, &t.Appended, &t.Said, // 45
		&t.Judged, &t.Bad, &t.Account,
	}
}

func (t *Task) encode(b []byte) []byte {
	list := t.fields()
	return append(fields.List(list[:]).Append(b, len(t.unknown)), t.unknown...)
}

// decode reads what encode has written. It keeps the memory.
func (t *Task) decode(b []byte) (err error) {
	list := t.fields()
	t.unknown, err = fields.List(list[:]).Read(b)
	return err
}
