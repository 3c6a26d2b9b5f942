package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/fields"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// FailedError is why a task has failed, with a text that its client may read.
type FailedError struct{ Text string }

// Error implements error.
func (e *FailedError) Error() string { return e.Text }

// failure is why a task failed, as it is recorded.
type failure struct {
	text  string // for the client; empty: it is for the operator alone
	saga  string
	lacks *engine.UnsupportedError
	// late: its turn took too long. ended is how a prompt or a resource has failed, encoded.
	late  bool
	ended []byte
	// refused: a hook has refused a turn.
	refused *steps.ClientError
}

// failureOf says of an error what a client may know.
func failureOf(kind engine.Kind, err error, saga string) failure {
	f := failure{saga: saga}
	var lacks *engine.UnsupportedError
	var failed *FailedError
	var refused *turns.RefusedError
	switch {
	case errors.As(err, &failed):
		f.text = failed.Text
	case errors.As(err, &refused):
		f.refused = &steps.ClientError{Code: refused.Code, Message: refused.Message, Data: refused.Data}
	case errors.As(err, &lacks):
		f.lacks = lacks
	case kind != engine.KindTool && turns.EndsWith(kind, err):
		f.ended = turns.EncodeFailure(err)
	case !errors.As(err, new(*engine.PanicError)) && errors.Is(err, context.DeadlineExceeded):
		f.late = true
	}
	return f
}

func (f *failure) fields(lacks, refused *[]byte) fields.List {
	return fields.List{1: &f.text, &f.saga, lacks, &f.late, &f.ended, refused}
}

func lacksFields(e *engine.UnsupportedError, needs *uint64) fields.List {
	return fields.List{1: &e.Tool, &e.StepID, needs}
}

func (f *failure) encode() []byte {
	var lacks []byte
	if f.lacks != nil {
		needs := engine.PackFeatures(f.lacks.Needs)
		lacks = lacksFields(f.lacks, &needs).Append(nil, 0)
	}
	var refused []byte
	if f.refused != nil {
		refused = errorFields(f.refused).Append(nil, 0)
	}
	return f.fields(&lacks, &refused).Append(nil, 0)
}

// decodeFailure returns the error that a task failed with.
func decodeFailure(b []byte) error {
	var f failure
	var lacks, refused []byte
	_, err := f.fields(&lacks, &refused).Read(b)
	if lacks != nil && err == nil {
		var needs uint64
		f.lacks = new(engine.UnsupportedError)
		_, err = lacksFields(f.lacks, &needs).Read(lacks)
		f.lacks.Needs = engine.UnpackFeatures(needs)
	}
	if refused != nil && err == nil {
		f.refused = new(steps.ClientError)
		_, err = errorFields(f.refused).Read(refused)
	}
	switch {
	case err != nil:
		return err
	case f.refused != nil:
		return &turns.Error{Err: &turns.RefusedError{Code: f.refused.Code, Message: f.refused.Message, Data: f.refused.Data}}
	case f.lacks != nil:
		return &turns.Error{Err: f.lacks}
	case f.ended != nil:
		return &turns.Error{Err: turns.DecodeFailure(f.ended)}
	case f.late:
		return &turns.Error{Err: fmt.Errorf("the turn took too long: %w", context.DeadlineExceeded)}
	case f.text != "":
		return &turns.Error{Err: &FailedError{f.text}}
	}
	return &turns.Error{Err: fmt.Errorf("the tool failed; its operator can find the reason in the log under the saga %s", f.saga)}
}

// Texts of failures.
var (
	errExpired  = &FailedError{"The task took longer than its time to live."}
	errAttempts = &FailedError{"The task was given up: each server that tried to go on with it failed."}
	errTooLarge = &FailedError{"The task's result is too large to be kept."}
	errState    = &FailedError{"The task has more to remember than can be kept."}
	errPartial  = &FailedError{"The task has given more partial results than can be kept."}
	errChanged  = &FailedError{"The task cannot go on: the tool has changed since it began. Start again."}
	errPauses   = &FailedError{"The tool paused too often without asking anything."}
)

// answersTo are those of the answers that are to one of the questions.
func answersTo(questions []steps.Step, answers []steps.Answer) (list []steps.Answer) {
	for _, a := range answers {
		for i := range questions {
			if questions[i].ID == a.StepID {
				list = append(list, a)
				break
			}
		}
	}
	return list
}
