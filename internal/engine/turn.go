package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Turn is what a running turn knows besides its saga's state. It is the context of all
// that runs in it.
type Turn struct {
	context.Context
	Call
	// Written is the revision that wrote the position.
	Written uint32
	// Step is the step function that runs; see [Turn.At].
	Step string

	// mu is held while what the turn has done changes, until over says why its code can do nothing more:
	// it was left alone, or has ended.
	mu   lock
	over error
	// limit is the context if it has a limit of its own, as in [Call], or nil.
	limit *budget
	// The code runs from pos and ends with end.
	pos *Position
	end Ended

	program *Program
	// halted is how a function of the Call failed, and refused why an effect was not begun as the context had ended.
	halted  error
	refused error
	answers []turnAnswer
	log     *effectLog
	// latched is the first error with which the turn has ended for its code: every later operation returns it again, and
	// the code is to return it as well. It is a [suspended], a [stoppedError], a [DivergedError], or that of halted.
	latched error
	// replay is the run of a flow; nil for a machine.
	replay *Replay
	// saves is what writes checkpoints; nil if none are wanted.
	saves *saves
	guard guard
	// finals counts as [Call.Final] does.
	finals int
}

// lock is a mutex made of a channel: a ledger may be waited for while it is held, and virtual time
// continues for those who wait for a channel.
type lock chan struct{}

// Lock waits until it is this caller's.
func (l lock) Lock() { l <- struct{}{} }

// Unlock leaves it to the next.
func (l lock) Unlock() { <-l }

// turnAnswer is an answer by its question's id, not by the id on the wire, with the
// digest of the question as the tool asked it.
type turnAnswer struct {
	steps.Answer
	digest [4]byte
}

// At is called before a step function runs.
func (tc *Turn) At(step string) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	tc.Step = step
}

// ended is why the code can do nothing more with its turn; nil if it can.
func (tc *Turn) ended() error {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	return cmp.Or(tc.over, tc.latched)
}

// Can reports whether the client can do all of the given features.
func (tc *Turn) Can(f steps.Features) bool { return tc.Client.Has(f) }

// Need fails with an *[UnsupportedError] if the client lacks one of the features.
func (tc *Turn) Need(f steps.Features) error {
	if tc.Client.Has(f) {
		return nil
	}
	return &UnsupportedError{Tool: tc.program.Name, Needs: f}
}

// Has reports whether the program has a step function of that name.
func (tc *Turn) Has(step string) bool { return tc.program.steps[step] }

// DecodeArguments decodes the arguments of the call into what into points to.
func (tc *Turn) DecodeArguments(args []byte, into any) error {
	if err := schema.Decode(args, into, tc.program.decoding); err != nil {
		return &ArgumentsError{tc.program.Name, err}
	}
	return nil
}

// StepEnded is called when a step function of a machine has ended without an error. It fails
// if the turn has ended already as far as the engine is concerned, and if the function ran
// again and left out an effect that it had performed.
func (tc *Turn) StepEnded() error {
	if err := tc.ended(); err != nil || tc.log.mine == 0 {
		return err
	}
	return tc.leftOut("the end of the step function", "")
}

// StepAnswer implements [steps.Answers]. A flow reads the answer to the question as it
// was asked last in this run.
func (tc *Turn) StepAnswer(id string) (steps.Answer, bool) {
	if tc.replay != nil {
		tc.mu.Lock()
		defer tc.mu.Unlock()
		if tc.over != nil {
			return steps.Answer{}, false
		}
		return tc.replay.rec.answer(id)
	}
	for i := range tc.answers {
		if tc.answers[i].StepID == id {
			return tc.answers[i].Answer, true
		}
	}
	return steps.Answer{}, false
}

// tells returns who hears what the tool says: nil once its code has ended or was left alone.
func (tc *Turn) tells() Notifier {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.over != nil {
		return nil
	}
	return tc.Notifier
}

// Progress tells the client how far the turn has come.
func (tc *Turn) Progress(done, total float64, message string) {
	if n := tc.tells(); n != nil {
		n.Progress(Progress{done, total, message})
	}
}

// Log sends the client a log message.
func (tc *Turn) Log(level slog.Level, data any) {
	if n := tc.tells(); n != nil {
		n.Log(Log{level, tc.program.Name, data})
	}
}

// Disconnect gives up the client's connection while the turn continues.
func (tc *Turn) Disconnect(retry time.Duration) {
	if d, ok := tc.tells().(Disconnecter); ok {
		d.Disconnect(retry)
	}
}

// Resolve returns the steps that put the questions to this client. Of alternatives
// it takes the one that answered returns, if that is given and returns one.
func (tc *Turn) Resolve(questions []steps.Request, answered func(*steps.Step) *steps.Step) ([]steps.Step, error) {
	if err := tc.ended(); err != nil {
		return nil, err
	}
	if len(questions) == 0 {
		return nil, fmt.Errorf("Ask: no question was given")
	}
	resolved := make([]steps.Step, len(questions))
	for i, q := range questions {
		if q == nil {
			return nil, fmt.Errorf("Ask: question %d is nil", i)
		}
		s, err := q.Step()
		if err != nil {
			return nil, fmt.Errorf("Ask: %w", err)
		}
		var known *steps.Step
		if answered != nil {
			asked := s // on the heap, unlike s
			known = answered(&asked)
		}
		if known != nil {
			s = *known
		}
		for wanted := s; known == nil && !tc.Client.Has(s.Needs); s = *s.Otherwise {
			if s.Otherwise == nil {
				return nil, &UnsupportedError{Tool: tc.program.Name, StepID: wanted.ID, Needs: wanted.Needs}
			}
		}
		id := ident.Base(s.ID)
		declared := tc.program.questions[id]
		if declared == nil {
			return nil, fmt.Errorf("Ask: question %q is not declared; add it to the tool's Asks", s.ID)
		}
		// Another question may have the same id, which shows as far as it is not varied. What
		// cannot be asked as it is declared, or has another id now, has to be.
		same := s.Varied
		if declared.err == nil && declared.step.ID == id {
			same = declared.step.Kind == s.Kind && (s.Varied || bytes.Equal(declared.step.Params, s.Params))
		}
		if !same {
			return nil, fmt.Errorf("Ask: question %q is another one than the tool's Asks have under this id; ask the one that is declared, as it is or by its With method", s.ID)
		}
		for _, other := range resolved[:i] {
			if other.ID == s.ID {
				return nil, fmt.Errorf("Ask: question %q is asked twice at once; use Nth to tell instances apart", s.ID)
			}
		}
		resolved[i] = s
	}
	return resolved, nil
}

// checkYield reports whether blocks are a part of a result.
func (t *Program) checkYield(blocks content.Blocks) error {
	if !t.Yields {
		return errors.New("Yield: the tool does not say that it yields; set Yields in its Info")
	}
	if len(blocks) == 0 {
		return errors.New("Yield: no block was given")
	}
	for i, b := range blocks {
		if b == nil {
			return fmt.Errorf("Yield: block %d is nil", i)
		}
	}
	if _, err := blocks.AppendJSON(nil); err != nil {
		return fmt.Errorf("Yield: %w", err)
	}
	return nil
}

// Yield ends a machine's turn with a part of the result; next continues.
func (tc *Turn) Yield(next string, blocks content.Blocks) (*Asked, error) {
	if !tc.Has(next) {
		return nil, fmt.Errorf("Yield: there is no step function %q; the tool's Steps must have it", next)
	}
	if err := cmp.Or(tc.ended(), tc.program.checkYield(blocks)); err != nil {
		return nil, err
	}
	return &Asked{Next: next, Yielded: blocks}, nil
}

func (c *Call) present() time.Time {
	if c.Present.After(c.Now) {
		return c.Present
	}
	return c.Now
}

// Sleep is Until with d from the present, which is later than the turn's time if it is taken again.
func (tc *Turn) Sleep(d time.Duration, next string) (*Asked, error) {
	now := tc.Now
	if d > 0 {
		now = tc.present()
	}
	return tc.Until("Sleep", now.Add(d), next)
}

// Until ends a machine's turn until at; next continues. It returns nil if that is over, so that
// the machine continues at once. call is what its author called.
func (tc *Turn) Until(call string, at time.Time, next string) (*Asked, error) {
	if !tc.Has(next) {
		return nil, fmt.Errorf("%s: there is no step function %q; the tool's Steps must have it", call, next)
	}
	if err := cmp.Or(tc.ended(), checkSleep(call, at)); err != nil || !tc.Now.Before(at) {
		return nil, err
	}
	return &Asked{Next: next, Wake: at.Round(0).UTC()}, nil
}
