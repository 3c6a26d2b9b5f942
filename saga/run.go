package saga

import (
	"math/rand/v2"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Run is what a [Flow] works with: what it asks, does and must not take from
// elsewhere. It is the context of the turn, which ends when the client goes away or the
// turn takes too long, and that of a task when the task is cancelled. It is valid during the
// function's call only, and in the goroutine that runs it: what a goroutine of your own asks, does
// or takes is refused, and the turn fails. The context, Progress, Log and answers are for all.
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
// A *[steps.Link] brings no value, so it is asked with [Run.AskAll]:
//
//	if err := r.AskAll(signIn); err != nil {
//		return "", err
//	}
//	if err := signIn.Answer(r); err != nil {
//		return "", err // the user did not open the page
//	}
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

// Yield gives the client a part of the result while there is more to come: it suspends the
// saga without a question, and the flow continues when the client comes back for the rest. What
// was given once is not given again. How it is given depends on who runs the saga: a client that
// knows of parts gets it at once and decides whether it wants more; one that cannot is given
// all parts in front of the result; a task ([Tasks]) keeps it and continues, and its result begins
// with all parts. A part should be of use by itself, as not every client comes back. A tool that
// yields must say so ([Info.Yields]).
//
// An error other than nil must be returned: it means that the saga has to wait, or that no
// block was given.
func (r *Run) Yield(blocks ...content.Block) error { return r.replay.Yield(blocks) }

// Sleep suspends the saga until d has passed since the flow has first come to it. It is exact
// to a second, and costs nothing meanwhile: no goroutine, no connection, no memory. A server
// that restarts continues where the saga was. How long it may be depends on who runs the saga:
// a task ([Tasks]) may sleep for as long as it may live; for a client that drives the saga
// itself, what fits into the server's bound of a turn is waited for, and a longer sleep ends the
// turn as a pause that says when to come back. A tool that must sleep for long says
// [TasksRequired]. A sleep of zero or less is none, and none lasts longer than to the end of 2099.
//
// An error other than nil must be returned: it means that the saga sleeps.
func (r *Run) Sleep(d time.Duration) error { return r.replay.Sleep(d) }

// Until is [Run.Sleep] until a time, which must be the same whenever the flow runs again: from
// an answer, an effect or [Run.Now]. A time in the past is no sleep.
func (r *Run) Until(at time.Time) error { return r.replay.Until(at) }

// Now returns the time, the same whenever the flow runs again, but for a turn that a client repeats on a server without
// a ledger. It is when the turn could be taken first, which is earlier than the present if no server was there to take it.
func (r *Run) Now() time.Time { return r.replay.Now() }

// NewID returns an id that no other call returns: 43 characters of A-Z a-z 0-9 -
// _, the same whenever the flow runs again.
func (r *Run) NewID() string { return r.replay.NewID() }

// Rand returns a source of random numbers that gives the same ones whenever the
// flow runs again. Each call returns one that begins anew; they are not for
// secrets.
func (r *Run) Rand() *rand.Rand { return r.replay.Rand() }
