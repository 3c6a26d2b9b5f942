package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Turn is what a running turn knows besides its saga's state. It is the context of all
// that runs in it.
type Turn struct {
	context.Context
	// ID identifies the saga, Now is the time of this turn, and Written the revision that
	// wrote the position.
	ID      [16]byte
	Now     time.Time
	Written uint32
	// Step is the step function that runs; see [Turn.At].
	Step string

	// mu is held while what the turn has done changes, until over, when its code was left alone.
	mu   lock
	over atomic.Bool
	// limit is as in [Call], and budget the context that keeps it. outer is the context without it, or
	// nil.
	limit  time.Duration
	budget *budget
	outer  context.Context

	program *Program
	client  steps.Features
	notify  Notifier
	// held, lost, acting and undoing are as in [Call]; halted is how one of the last two failed.
	held    bool
	lost    bool
	acting  func(context.Context) error
	undoing func(context.Context, Undoing) error
	halted  error
	answers []turnAnswer
	log     *effectLog
	// latched is what every operation returns once a flow has suspended or diverged.
	latched error
	// replay is the run of a flow; nil for a machine.
	replay *Replay
	// saves is what writes checkpoints; nil if none are wanted.
	saves *saves
	guard guard
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
		tc.guard.mu.Lock()
		defer tc.guard.mu.Unlock()
		if tc.guard.over {
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
	if tc.over.Load() {
		return nil, errOver
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
		for wanted := s; known == nil && !tc.client.Has(s.Needs); s = *s.Otherwise {
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

// Notifier gets what a tool tells while a turn is under way. Its methods must
// be safe for concurrent use and must not block for long.
type Notifier interface {
	// Progress gets how far the turn has come.
	Progress(Progress)
	// Log gets a message for the client's log.
	Log(Log)
}

// Progress says how far a turn has come.
type Progress struct {
	// Done grows with each message; Total is 0 if it is unknown.
	Done, Total float64
	// Message is for people, or empty.
	Message string
}

// Log is a message for the client's log.
type Log struct {
	// Level is how severe it is.
	Level slog.Level
	// Logger is the tool's name.
	Logger string
	// Data is the message: anything that encodes to JSON.
	Data any
}

// levels are MCP's names of levels, the most severe first. The names that package
// log/slog lacks are between and above its own, four apart.
var levels = []struct {
	level slog.Level
	name  string
}{
	{slog.LevelError + 12, "emergency"},
	{slog.LevelError + 8, "alert"},
	{slog.LevelError + 4, "critical"},
	{slog.LevelError, "error"},
	{slog.LevelWarn, "warning"},
	{slog.LevelInfo + 2, "notice"},
	{slog.LevelInfo, "info"},
}

// LevelName returns MCP's name of a level, as in syslog (RFC 5424): that of the nearest
// level that is not more severe.
func LevelName(l slog.Level) string {
	for _, known := range levels {
		if l >= known.level {
			return known.name
		}
	}
	return "debug"
}

// ParseLevel returns the level of an MCP name.
func ParseLevel(name string) (level slog.Level, ok bool) {
	for _, known := range levels {
		if known.name == name {
			return known.level, true
		}
	}
	return slog.LevelDebug, name == "debug"
}

// Disconnecter is a [Notifier] whose connection can be given up during a turn:
// the client comes back for the result (SEP-1699).
type Disconnecter interface {
	// Disconnect closes the connection and has the client come back after retry.
	Disconnect(retry time.Duration)
}
