package saga

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Run is what a [Flow] works with: what it asks, does and must not take from
// elsewhere. It is the context of the turn, which ends when the client goes away or the
// turn takes too long. It is valid during the function's call only.
type Run struct {
	context.Context
	turn   *engine.Turn
	replay *engine.Replay
}

// Answerable is a question that brings an answer of type T: a *[steps.Form],
// *[steps.Sample] or *[steps.RootsList], or one of them as its With method varies it.
type Answerable[T any] interface {
	steps.Request
	// Answer reads the answer from a turn; see [steps.Form.Answer].
	Answer(steps.Answers) (T, error)
}

// Ask asks one question, as it is declared or as its With method varies it, and
// returns its answer:
//
//	review, err := saga.Ask(r, askReview.With(steps.Default("notes", draft)))
//
// The error must be returned if it is not nil: it may mean that the saga has to
// wait. The other errors are those of the question's Answer method.
func Ask[T any](r *Run, q Answerable[T]) (T, error) {
	if err := r.AskAll(q); err != nil {
		var none T
		return none, err
	}
	return q.Answer(r)
}

// AskAll asks several questions in one round. When it returns nil, all are answered;
// read the answers with the questions' Answer methods:
//
//	if err := r.AskAll(dates, budget); err != nil {
//		return "", err
//	}
//	when, err := dates.Answer(r)
//
// An error other than nil must be returned: it may mean that the saga has to wait.
func (r *Run) AskAll(questions ...steps.Request) error { return r.replay.Ask(questions...) }

// StepAnswer implements [steps.Answers]: it returns the answer to the question
// as it was asked last in this run.
func (r *Run) StepAnswer(id string) (steps.Answer, bool) { return r.replay.StepAnswer(id) }

// Now returns the time, the same whenever the flow runs again.
func (r *Run) Now() time.Time { return r.replay.Now() }

// ID identifies the saga; it is the same in all its turns.
func (r *Run) ID() ID { return r.turn.ID() }

// NewID returns an id that no other call returns: 43 characters of A-Z a-z 0-9 -
// _, the same whenever the flow runs again.
func (r *Run) NewID() string { return r.replay.NewID() }

// Rand returns a source of random numbers that gives the same ones whenever the
// flow runs again. Each call returns one that begins anew; they are not for
// secrets.
func (r *Run) Rand() *rand.Rand { return r.replay.Rand() }

// Can reports whether the client can do all of the given features. A client may
// change between turns, so ask before the first question only.
func (r *Run) Can(f steps.Features) bool { return r.turn.Can(f) }

// Progress tells the client how far this turn has come; see [Turn.Progress].
func (r *Run) Progress(done, total float64, message string) {
	r.turn.Progress(done, total, message)
}

// Log sends the client a log message; see [Turn.Log]. A flow that runs again logs
// again.
func (r *Run) Log(level slog.Level, data any) { r.turn.Log(level, data) }

// Disconnect gives up the client's connection; see [Turn.Disconnect].
func (r *Run) Disconnect(retry time.Duration) { r.turn.Disconnect(retry) }

func (r *Run) running() *engine.Turn { return r.turn }

// Need fails if the client lacks one of the features; see [Turn.Need].
func (r *Run) Need(f steps.Features) error { return r.turn.Need(f) }
