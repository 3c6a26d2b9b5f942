package saga

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Run is what a [Flow] works with: what it asks, does and must not take from
// elsewhere. It is valid during the function's call only.
type Run struct {
	turn  *turnContext
	rec   record
	asked *asked
	// taken counts the times and ids of this run.
	taken counts
	// diverged is set when the run leaves its record; it then ends.
	diverged error
}

// counts are how many times and ids (random sources among them) a run has taken.
type counts struct{ times, ids int }

// suspended is the error with which a flow ends when it has asked.
type suspended struct{ waiting waiting }

// waiting are the ids of the questions that a flow has asked. They are written out
// only where somebody reads the error.
type waiting []string

func (w waiting) String() string {
	names := make([]string, len(w))
	for i, id := range w {
		names[i] = strconv.Quote(id)
	}
	return strings.Join(names, ", ")
}

func (e *suspended) Error() string {
	return fmt.Sprintf("the saga waits for the answer to %s; the flow must return this error", e.waiting)
}

// Answerable is a question that brings an answer of type T: a *[steps.Form],
// *[steps.Sample] or *[steps.RootsList], or one of them as its With method varies it.
type Answerable[T any] interface {
	steps.Ask
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
	if err := r.Ask(q); err != nil {
		var none T
		return none, err
	}
	return q.Answer(r)
}

// Ask asks several questions in one round. When it returns nil, all are answered;
// read the answers with the questions' Answer methods:
//
//	if err := r.Ask(dates, budget); err != nil {
//		return "", err
//	}
//	when, err := dates.Answer(r)
//
// An error other than nil must be returned: it may mean that the saga has to wait.
func (r *Run) Ask(questions ...steps.Ask) error {
	if r.turn.latched != nil {
		return r.turn.latched
	}
	wanted, err := r.turn.resolve(questions, r.answered)
	if err != nil {
		return err
	}
	missing := wanted[:0] // wanted is ours
	for _, s := range wanted {
		found, err := r.rec.take(s, r.turn)
		if err != nil {
			return r.diverges(err)
		}
		if !found {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	r.asked, r.rec.counts = &asked{next: flowStep, steps: missing}, r.taken
	r.turn.latched = &suspended{r.waiting()}
	return r.turn.latched
}

func (r *Run) waiting() waiting {
	ids := make(waiting, len(r.asked.steps))
	for i := range ids {
		ids[i] = r.asked.steps[i].ID
	}
	return ids
}

// answered returns the one of a step and its alternatives that was asked before and
// is answered: it is not asked again, whatever the present client can do.
func (r *Run) answered(s *steps.Step) *steps.Step {
	var found *steps.Step
	first := len(r.rec.entries)
	for ; s != nil; s = s.Otherwise {
		if i := r.rec.next(s, r.turn.tool); i >= 0 && i < first {
			found, first = s, i
		}
	}
	return found
}

// StepAnswer implements [steps.Answers]: it returns the answer to the question
// as it was asked last in this run.
func (r *Run) StepAnswer(id string) (steps.Answer, bool) { return r.rec.answer(id) }

// Context is the context of this turn. It ends when the client goes away or the
// turn takes too long.
func (r *Run) Context() context.Context { return r.turn.Context }

// Now returns the time, the same whenever the flow runs again.
func (r *Run) Now() time.Time {
	now := r.turn.now.UnixNano()
	switch {
	case r.taken.times < len(r.rec.times):
		now = r.rec.times[r.taken.times]
	case r.admit("a call of", "Now") == nil:
		r.rec.times = append(r.rec.times, now)
	}
	r.taken.times++
	return time.Unix(0, now).UTC()
}

// ID identifies the saga; it is the same in all its turns.
func (r *Run) ID() ID { return r.turn.id }

// NewID returns an id that no other call returns: 43 characters of A-Z a-z 0-9 -
// _, the same whenever the flow runs again.
func (r *Run) NewID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "mcpsaga id 1\x00%s%d", r.turn.id[:], r.nextID("NewID")))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// nextID numbers the calls of NewID and Rand.
func (r *Run) nextID(call string) int {
	if r.rec.counted && r.taken.ids >= r.rec.counts.ids {
		_ = r.admit("a call of", call) // later operations return the error
	}
	r.taken.ids++
	return r.taken.ids
}

// Rand returns a source of random numbers that gives the same ones whenever the
// flow runs again. Each call returns one that begins anew; they are not for
// secrets.
func (r *Run) Rand() *rand.Rand {
	return rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "mcpsaga random 1\x00%s%d", r.turn.id[:], r.nextID("Rand")))))
}

// Can reports whether the client can do all of the given features. A client may
// change between turns, so ask before the first question only.
func (r *Run) Can(f steps.Features) bool { return r.turn.client.Has(f) }

// Progress tells the client how far this turn has come; see [Turn.Progress].
func (r *Run) Progress(done, total float64, message string) {
	r.turn.progress(done, total, message)
}

// Log sends the client a log message; see [Turn.Log]. A flow that runs again logs
// again.
func (r *Run) Log(level LogLevel, data any) { r.turn.report(level, data) }

// Disconnect gives up the client's connection; see [Turn.Disconnect].
func (r *Run) Disconnect(retry time.Duration) { r.turn.disconnect(retry) }

func (r *Run) performer() *turnContext { return r.turn }
