package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Turn is what a running turn knows besides its saga's state. It is the context of all
// that runs in it.
type Turn struct {
	context.Context
	program *Program
	id      [16]byte
	now     time.Time
	client  steps.Features
	notify  Notifier
	held    bool
	answers []turnAnswer
	log     *effectLog
	// written is the revision that wrote the position.
	written uint32
	// latched is what every operation returns once a flow has suspended or diverged.
	latched error
	// replay is the run of a flow; nil for a machine.
	replay *Replay
}

// turnAnswer is an answer by its question's id, not by the id on the wire, with the
// digest of the question as the tool asked it.
type turnAnswer struct {
	steps.Answer
	digest [4]byte
}

// ID identifies the saga.
func (tc *Turn) ID() [16]byte { return tc.id }

// Now is the time of this turn.
func (tc *Turn) Now() time.Time { return tc.now }

// Can reports whether the client can do all of the given features.
func (tc *Turn) Can(f steps.Features) bool { return tc.client.Has(f) }

// Need fails with an *[UnsupportedError] if the client lacks one of the features.
func (tc *Turn) Need(f steps.Features) error {
	if tc.client.Has(f) {
		return nil
	}
	return &UnsupportedError{Tool: tc.program.Name, Needs: f}
}

// Has reports whether the program has a step function of that name.
func (tc *Turn) Has(step string) bool { return tc.program.code.Has(step) }

// Written is the revision that wrote the position.
func (tc *Turn) Written() uint32 { return tc.written }

// DecodeArguments decodes the arguments of the call into what into points to.
func (tc *Turn) DecodeArguments(args []byte, into any) error {
	return tc.program.decodeArguments(args, into)
}

// Resume makes the next effect of each name a new one: a step machine does not come
// to its old ones again.
func (tc *Turn) Resume() { tc.log.resume() }

// StepAnswer implements [steps.Answers].
func (tc *Turn) StepAnswer(id string) (steps.Answer, bool) {
	for i := range tc.answers {
		if tc.answers[i].StepID == id {
			return tc.answers[i].Answer, true
		}
	}
	return steps.Answer{}, false
}

// Progress tells the client how far the turn has come.
func (tc *Turn) Progress(done, total float64, message string) {
	if tc.notify != nil {
		tc.notify.Progress(Progress{done, total, message})
	}
}

// Log sends the client a log message.
func (tc *Turn) Log(level slog.Level, data any) {
	if tc.notify != nil {
		tc.notify.Log(Log{level, tc.program.Name, data})
	}
}

// Disconnect gives up the client's connection while the turn goes on.
func (tc *Turn) Disconnect(retry time.Duration) {
	if d, ok := tc.notify.(Disconnecter); ok {
		d.Disconnect(retry)
	}
}

// Resolve returns the steps that put the questions to this client.
func (tc *Turn) Resolve(questions []steps.Request) ([]steps.Step, error) {
	return tc.resolve(questions, nil)
}

// resolve returns the steps that put the questions to this client. Of alternatives
// it takes the one that answered returns, if it returns one.
func (tc *Turn) resolve(questions []steps.Request, answered func(*steps.Step) *steps.Step) ([]steps.Step, error) {
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
		for wanted := s; known == nil && !tc.client.Has(s.Needs); s = *s.Otherwise {
			if s.Otherwise == nil {
				return nil, &UnsupportedError{Tool: tc.program.Name, StepID: wanted.ID, Needs: wanted.Needs}
			}
		}
		if tc.program.question(s.ID) == nil {
			return nil, fmt.Errorf("Ask: question %q is not declared; add it to the tool's Asks", s.ID)
		}
		if !tc.program.isDeclared(&s) {
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
