package saga

import (
	"math/rand/v2"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Run is what a [Flow] works with: what it asks, does and must not take from
// elsewhere. It is the context of the turn, which ends when the client goes away or the
// turn takes too long. It is valid during the function's call only.
type Run struct {
	working
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

// Now returns the time, the same whenever the flow runs again.
func (r *Run) Now() time.Time { return r.replay.Now() }

// NewID returns an id that no other call returns: 43 characters of A-Z a-z 0-9 -
// _, the same whenever the flow runs again.
func (r *Run) NewID() string { return r.replay.NewID() }

// Rand returns a source of random numbers that gives the same ones whenever the
// flow runs again. Each call returns one that begins anew; they are not for
// secrets.
func (r *Run) Rand() *rand.Rand { return r.replay.Rand() }
