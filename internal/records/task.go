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
	// Target is what it is a task of, ID its id among those of Principal, and Saga that
	// of the saga.
	Target    Target
	ID        string
	Principal string
	// Account is on whose account it counts; empty: the principal's.
	Account string
	Saga    [16]byte

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

	// Created and Updated are when it was made and has last changed for those who look at it;
	// Seen counts these changes. Due is when it is to have ended, WakeAt until when it sleeps,
	// and Keep until when it is to be kept at least. Zero: never.
	Created, Updated, Due, WakeAt, Keep time.Time
	Seen                                uint64
	// Wanted is until when it goes on though nobody has shown that it is still wanted; zero: as
	// long as it takes.
	Wanted time.Time
	// TTL, Poll and Retain (after its end) are what was settled when it was made.
	TTL, Poll, Retain time.Duration

	// Call: a client waits for it, so it goes on where its answer arrives. It is neither counted
	// among its principal's tasks nor listed.
	Call bool
	// Cancelled: a client wants it cancelled. TooLate: it cannot be, as what it did is final.
	Cancelled, TooLate bool
	// Undo says what is being undone, and why; nil if nothing is.
	Undo []byte
	// Message is for people. Progress is what the tool said last.
	Message  string
	Progress []byte
	// Events is the number of the newest event; Told counts those of progress and log,
	// Appended those of the dialect, and Size is how many bytes they and the rest have but for Told.
	Events, Told, Appended, Size uint64

	// Request is what it was begun with, Note what the dialect wants to know again, and Digest
	// identifies the call if that had an idempotency key.
	Request, Note, Digest []byte
	// Position is where the saga stands; nil before its first turn. Questions are open there,
	// and Answers have come. Asked counts the questions so far, with those.
	Position, Questions, Answers []byte
	Asked                        uint64
	// Given are the last answers, as those who drive tasks know them again.
	Given []byte
	// End is how it has ended, and Again where what could not be undone is tried again. Said tells
	// people how it has ended, and Bad whether its result says that the tool has failed; Judged: that
	// is known.
	End, Again  []byte
	Said        string
	Judged, Bad bool

	// unknown are fields of newer programs.
	unknown []byte
}

// Over is when the task is to be ended if it has not by then: the earlier of Due and Wanted;
// zero: never.
func (t *Task) Over() time.Time {
	if t.Due.IsZero() || !t.Wanted.IsZero() && t.Wanted.Before(t.Due) {
		return t.Wanted
	}
	return t.Due
}

// Fields of a task. Numbers are never used again.
const (
	fieldTool = 1 + iota
	fieldRevision
	fieldID
	fieldPrincipal
	fieldSaga
	fieldState
	fieldStatus
	fieldWrites
	fieldMarks
	fieldRest
	fieldBase
	fieldLoose
	fieldFailures
	fieldLastError
	fieldCreated
	fieldUpdated
	fieldDue
	fieldWakeAt
	fieldKeep
	fieldSeen
	fieldTTL
	fieldPoll
	fieldRetain
	fieldCancelled
	fieldMessage
	fieldProgress
	fieldEvents
	fieldTold
	fieldSize
	fieldRequest
	fieldNote
	fieldDigest
	fieldPosition
	fieldQuestions
	fieldAnswers
	fieldEnd
	fieldAgain
	fieldWanted
	fieldCall
	fieldAsked
	fieldGiven
)

const (
	fieldUndo = fieldGiven + 1 + iota
	fieldTooLate
	fieldAppended
	fieldSaid
	fieldJudged
	fieldBad
	fieldAccount
)

// size is how many bytes the encoded task has at most.
func (t *Task) size() int {
	n := 0
	for _, s := range [...]string{t.Target.Name, t.ID, t.Principal, t.Account, t.LastError, t.Message, t.Said} {
		n += len(s)
	}
	for _, b := range [...][]byte{t.Progress, t.Request, t.Note, t.Digest, t.Position, t.Questions, t.Answers, t.End, t.Again, t.Undo, t.Given, t.unknown} {
		n += len(b)
	}
	return n + 49*12
}

func (t *Task) encode(b []byte) []byte {
	b = fields.AppendBytes(b, fieldTool, t.Target.Name)
	b = fields.AppendUint(b, fieldRevision, uint64(t.Target.Revision))
	b = fields.AppendBytes(b, fieldID, t.ID)
	b = fields.AppendBytes(b, fieldPrincipal, t.Principal)
	b = fields.AppendBytes(b, fieldSaga, t.Saga[:])
	b = fields.AppendUint(b, fieldState, uint64(t.State))
	b = fields.AppendUint(b, fieldStatus, uint64(t.Status))
	b = fields.AppendUint(b, fieldWrites, t.Writes)
	b = fields.AppendUint(b, fieldMarks, t.Marks)
	b = fields.AppendTime(b, fieldRest, t.Rest)
	b = fields.AppendUint(b, fieldBase, t.Base)
	b = fields.AppendBool(b, fieldLoose, t.Loose)
	b = fields.AppendUint(b, fieldFailures, t.Failures)
	b = fields.AppendBytes(b, fieldLastError, t.LastError)
	b = fields.AppendTime(b, fieldCreated, t.Created)
	b = fields.AppendTime(b, fieldUpdated, t.Updated)
	b = fields.AppendTime(b, fieldDue, t.Due)
	b = fields.AppendTime(b, fieldWakeAt, t.WakeAt)
	b = fields.AppendTime(b, fieldKeep, t.Keep)
	b = fields.AppendUint(b, fieldSeen, t.Seen)
	b = fields.AppendUint(b, fieldTTL, uint64(t.TTL))
	b = fields.AppendUint(b, fieldPoll, uint64(t.Poll))
	b = fields.AppendUint(b, fieldRetain, uint64(t.Retain))
	b = fields.AppendBool(b, fieldCancelled, t.Cancelled)
	b = fields.AppendBool(b, fieldTooLate, t.TooLate)
	b = fields.AppendBytes(b, fieldUndo, t.Undo)
	b = fields.AppendUint(b, fieldAppended, t.Appended)
	b = fields.AppendBytes(b, fieldSaid, t.Said)
	b = fields.AppendBool(b, fieldJudged, t.Judged)
	b = fields.AppendBool(b, fieldBad, t.Bad)
	b = fields.AppendBytes(b, fieldAccount, t.Account)
	b = fields.AppendBytes(b, fieldMessage, t.Message)
	b = fields.AppendBytes(b, fieldProgress, t.Progress)
	b = fields.AppendUint(b, fieldEvents, t.Events)
	b = fields.AppendUint(b, fieldTold, t.Told)
	b = fields.AppendUint(b, fieldSize, t.Size)
	b = fields.AppendBytes(b, fieldRequest, t.Request)
	b = fields.AppendBytes(b, fieldNote, t.Note)
	b = fields.AppendBytes(b, fieldDigest, t.Digest)
	b = fields.AppendBytes(b, fieldPosition, t.Position)
	b = fields.AppendBytes(b, fieldQuestions, t.Questions)
	b = fields.AppendBytes(b, fieldAnswers, t.Answers)
	b = fields.AppendBytes(b, fieldEnd, t.End)
	b = fields.AppendBytes(b, fieldAgain, t.Again)
	b = fields.AppendTime(b, fieldWanted, t.Wanted)
	b = fields.AppendBool(b, fieldCall, t.Call)
	b = fields.AppendUint(b, fieldAsked, t.Asked)
	b = fields.AppendBytes(b, fieldGiven, t.Given)
	return append(b, t.unknown...)
}

// decode reads what encode has written. It keeps the memory.
func (t *Task) decode(b []byte) (err error) {
	for field, v := range fields.All(b, &err) {
		switch field {
		case fieldTool:
			t.Target.Name = string(v)
		case fieldRevision:
			t.Target.Revision = uint32(v.Uint())
		case fieldID:
			t.ID = string(v)
		case fieldPrincipal:
			t.Principal = string(v)
		case fieldSaga:
			copy(t.Saga[:], v)
		case fieldState:
			t.State = TaskState(v.Uint())
		case fieldStatus:
			t.Status = uint8(v.Uint())
		case fieldWrites:
			t.Writes = v.Uint()
		case fieldMarks:
			t.Marks = v.Uint()
		case fieldRest:
			t.Rest = v.Time()
		case fieldBase:
			t.Base = v.Uint()
		case fieldLoose:
			t.Loose = v.Bool()
		case fieldFailures:
			t.Failures = v.Uint()
		case fieldLastError:
			t.LastError = string(v)
		case fieldCreated:
			t.Created = v.Time()
		case fieldUpdated:
			t.Updated = v.Time()
		case fieldDue:
			t.Due = v.Time()
		case fieldWakeAt:
			t.WakeAt = v.Time()
		case fieldKeep:
			t.Keep = v.Time()
		case fieldSeen:
			t.Seen = v.Uint()
		case fieldTTL:
			t.TTL = time.Duration(v.Uint())
		case fieldPoll:
			t.Poll = time.Duration(v.Uint())
		case fieldRetain:
			t.Retain = time.Duration(v.Uint())
		case fieldCancelled:
			t.Cancelled = v.Bool()
		case fieldTooLate:
			t.TooLate = v.Bool()
		case fieldUndo:
			t.Undo = v
		case fieldAppended:
			t.Appended = v.Uint()
		case fieldSaid:
			t.Said = string(v)
		case fieldJudged:
			t.Judged = v.Bool()
		case fieldBad:
			t.Bad = v.Bool()
		case fieldAccount:
			t.Account = string(v)
		case fieldMessage:
			t.Message = string(v)
		case fieldProgress:
			t.Progress = v
		case fieldEvents:
			t.Events = v.Uint()
		case fieldTold:
			t.Told = v.Uint()
		case fieldSize:
			t.Size = v.Uint()
		case fieldRequest:
			t.Request = v
		case fieldNote:
			t.Note = v
		case fieldDigest:
			t.Digest = v
		case fieldPosition:
			t.Position = v
		case fieldQuestions:
			t.Questions = v
		case fieldAnswers:
			t.Answers = v
		case fieldEnd:
			t.End = v
		case fieldAgain:
			t.Again = v
		case fieldWanted:
			t.Wanted = v.Time()
		case fieldCall:
			t.Call = v.Bool()
		case fieldAsked:
			t.Asked = v.Uint()
		case fieldGiven:
			t.Given = v
		default:
			t.unknown = fields.AppendBytes(t.unknown, field, v)
		}
	}
	return err
}
