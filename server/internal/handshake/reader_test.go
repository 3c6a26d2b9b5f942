package handshake

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/inturn"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// scripted is one task that does what a test says.
type scripted struct {
	tasks.Viewer
	mu      sync.Mutex
	task    tasks.Task
	events  []tasks.Event
	fails   int // how often the ledger fails before it does not
	changed chan struct{}
	answers []steps.Answer
	wrong   int // how many answers cannot be read
}

func newScripted() *scripted { return &scripted{changed: make(chan struct{})} }

// set changes the task.
func (s *scripted) set(change func(*tasks.Task)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.task)
	s.task.Rev++
	s.task.Events = uint64(len(s.events))
	close(s.changed)
	s.changed = make(chan struct{})
}

// misread has so many answers be ones that cannot be read.
func (s *scripted) misread(answers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = answers
}

// given are the answers so far.
func (s *scripted) given() []steps.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers
}

// failing reports whether the ledger fails now.
func (s *scripted) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails--
	return s.fails >= 0
}

func (s *scripted) Follow(ctx context.Context, _, _ string, after uint64, wake func() time.Time) iter.Seq2[tasks.News, error] {
	return func(yield func(tasks.News, error) bool) {
		for seen := uint64(0); ; {
			if s.failing() {
				yield(tasks.News{}, fmt.Errorf("away: %w", turns.ErrLedger))
				return
			}
			s.mu.Lock()
			t, events, changed := s.task, s.events, s.changed
			s.mu.Unlock()
			for ; after < uint64(len(events)); after++ {
				if !yield(tasks.News{Event: &events[after]}, nil) {
					return
				}
			}
			if t.Rev > seen && (!yield(tasks.News{Task: &t}, nil) || t.Status.Ended()) {
				return
			}
			seen = t.Rev
			woken := time.NewTimer(time.Until(wake()))
			select {
			case <-changed:
			case <-woken.C:
				yield(tasks.News{}, nil)
			case <-ctx.Done():
				yield(tasks.News{}, ctx.Err())
				return
			}
		}
	}
}

func (s *scripted) Renew(context.Context, string, string, time.Duration, func(json.RawMessage) json.RawMessage) (*tasks.Task, error) {
	return nil, nil
}

func (s *scripted) Answer(_ context.Context, _, _ string, answers []steps.Answer) (*tasks.Task, error) {
	if s.failing() {
		return nil, turns.ErrLedger
	}
	s.mu.Lock()
	if s.wrong--; s.wrong >= 0 {
		s.mu.Unlock()
		return nil, &engine.AnswerError{StepID: answers[0].StepID, Reason: "nonsense"}
	}
	s.answers = append(s.answers, answers...)
	s.mu.Unlock()
	t := new(tasks.Task)
	for _, a := range answers {
		t.Given = append(t.Given, tasks.Given{Number: numbered(a.StepID), Sum: tasks.Sum(a)})
	}
	s.set(func(t *tasks.Task) { t.Questions, t.Numbers, t.Status, t.Rests = nil, nil, tasks.Working, false })
	return t, nil
}

// numbered is the number of the question with that id.
func numbered(id string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(id))) }

// said is a way to a client that answers what it is asked, when it does.
type said struct {
	notes  chan string
	answer chan steps.Answer
	asked  chan string
	why    chan error // that a question was taken back
}

func newSaid() *said {
	return &said{make(chan string, 100), make(chan steps.Answer), make(chan string, 10), make(chan error, 10)}
}

func (w *said) Notify(method string, params json.RawMessage) { w.notes <- method }
func (w *said) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	w.asked <- method
	inturn.Take(ctx)
	select {
	case a := <-w.answer:
		return a, nil
	case <-ctx.Done():
		w.why <- context.Cause(ctx)
		return steps.Answer{}, context.Cause(ctx)
	}
}
func (*said) Hangup(time.Duration)  {}
func (*said) KeepOpen() *wire.Error { return nil }
func (w *said) end(s *scripted, status tasks.Status) {
	s.set(func(t *tasks.Task) { t.Status = status })
}
func accepted() steps.Answer { return steps.Answer{Result: json.RawMessage(`{"action":"accept"}`)} }
func askingFor(id string) steps.Step {
	return steps.Step{ID: id, Kind: steps.Elicitation, Needs: steps.Features{Forms: true}, Params: json.RawMessage(`{}`)}
}
func asking(ids ...string) func(*tasks.Task) {
	return func(t *tasks.Task) {
		t.Status, t.Questions, t.Numbers, t.Rests = tasks.InputRequired, nil, nil, true
		for _, id := range ids {
			t.Questions, t.Numbers = append(t.Questions, askingFor(id)), append(t.Numbers, numbered(id))
		}
	}
}

// newReader is a reader of a client that can fill in forms.
func newReader(t *testing.T, s *scripted, w *said) (*reader, context.CancelCauseFunc) {
	p := &peer{revision: revision.November2025, Terms: sessionid.Terms{Features: steps.Features{Forms: true}}}
	closing, silence := context.WithCancelCause(context.Background())
	t.Cleanup(func() { silence(nil) })
	host := &dialect.Host{Draining: context.Background(), Tasks: s, Turns: &turns.Runner{}, Log: slog.New(slog.DiscardHandler)}
	x := &dialect.Exchange{Way: w, Closing: closing, Notifier: &dialect.Notifier{Way: w, Token: []byte("1"), Level: &p.level}}
	return &reader{call: &call{handshake: &handshake{Host: host}, Exchange: x, peer: p, features: p.Features}, task: "t", wait: callWait}, silence
}

func TestWaiting(t *testing.T) {
	type waits struct {
		*testing.T
		s      *scripted
		way    *said
		silent context.CancelCauseFunc
		cancel context.CancelCauseFunc
		task   *tasks.Task
		err    error
		ended  chan struct{}
	}
	for name, run := range map[string]func(w *waits){
		"it ends": func(w *waits) {
			w.way.end(w.s, tasks.Completed)
			<-w.ended
			assert.NoError(w, w.err)
			assert.Equal(w, tasks.Completed, w.task.Status)
		},
		"what is said is passed on once": func(w *waits) {
			w.s.mu.Lock()
			w.s.events = []tasks.Event{{N: 1, Log: &engine.Log{Level: slog.LevelError, Data: 1}}, {N: 2, Progress: &engine.Progress{Done: 1}}}
			w.s.mu.Unlock()
			w.s.set(func(*tasks.Task) {})
			w.s.set(func(*tasks.Task) {})
			w.way.end(w.s, tasks.Completed)
			<-w.ended
			assert.Equal(w, "notifications/message", <-w.way.notes)
			assert.Equal(w, "notifications/progress", <-w.way.notes)
			assert.Empty(w, w.way.notes)
		},
		"it shows that it is alive": func(w *waits) {
			time.Sleep(time.Hour)
			w.way.end(w.s, tasks.Completed)
			<-w.ended
			assert.GreaterOrEqual(w, len(w.way.notes), int(time.Hour/aliveTime))
		},
		"the ledger is away for a while": func(w *waits) {
			w.s.mu.Lock()
			w.s.fails = 10 // with the longest pauses less than an outage
			w.s.events = []tasks.Event{{N: 1}}
			w.s.mu.Unlock()
			w.s.set(func(*tasks.Task) {})
			time.Sleep(30 * time.Second)
			w.way.end(w.s, tasks.Completed)
			<-w.ended
			assert.NoError(w, w.err)
		},
		"the ledger stays away": func(w *waits) {
			w.s.mu.Lock()
			w.s.fails = 1 << 30
			w.s.events = []tasks.Event{{N: 1}}
			w.s.mu.Unlock()
			began := time.Now()
			w.s.set(func(*tasks.Task) {})
			<-w.ended
			assert.ErrorIs(w, w.err, turns.ErrLedger)
			assert.InDelta(w, outage, time.Since(began), float64(5*time.Second))
			w.s.mu.Lock()
			defer w.s.mu.Unlock()
			assert.Less(w, 1<<30-w.s.fails, 50, "it is asked less and less")
		},
		"it is answered": func(w *waits) {
			w.s.set(asking("q"))
			assert.Equal(w, "elicitation/create", <-w.way.asked)
			w.way.answer <- accepted()
			synctest.Wait()
			w.way.end(w.s, tasks.Completed)
			<-w.ended
			assert.NoError(w, w.err)
			require.Len(w, w.s.given(), 1)
			assert.Equal(w, "q", w.s.given()[0].StepID)
			assert.Empty(w, w.way.asked)
		},
		"the ledger is away when it is answered": func(w *waits) {
			w.s.set(asking("q"))
			<-w.way.asked
			w.s.mu.Lock()
			w.s.fails = 10
			w.s.mu.Unlock()
			w.way.answer <- accepted()
			time.Sleep(30 * time.Second)
			assert.Len(w, w.s.given(), 1)
		},
		"the answer cannot be read": func(w *waits) {
			w.s.misread(1)
			w.s.set(asking("q"))
			<-w.way.asked
			w.way.answer <- accepted()
			synctest.Wait()
			require.Len(w, w.s.given(), 1)
			assert.Nil(w, w.s.given()[0].Result)
			assert.Contains(w, w.s.given()[0].Error.Message, "nonsense")
		},
		"no answer can be read": func(w *waits) {
			w.s.misread(1 << 30)
			w.s.set(asking("q"))
			<-w.way.asked
			w.way.answer <- accepted()
			<-w.ended
			assert.ErrorAs(w, w.err, new(*engine.AnswerError))
		},
		"somebody else answers": func(w *waits) {
			w.s.set(asking("q", "r"))
			<-w.way.asked
			<-w.way.asked
			w.s.set(asking("r", "s"))
			assert.ErrorIs(w, <-w.way.why, errAnswered)
			<-w.way.asked
			synctest.Wait()
			assert.Empty(w, w.way.why)
			w.way.end(w.s, tasks.Cancelled)
			<-w.ended
			assert.NoError(w, w.err)
			assert.Len(w, w.way.why, 2)
		},
		"the client takes too long": func(w *waits) {
			w.s.set(asking("q"))
			time.Sleep(2 * time.Minute)
			require.Len(w, w.s.given(), 1)
			assert.Equal(w, int64(dialect.CodeLate), w.s.given()[0].Error.Code)
		},
		"the client cannot be asked that": func(w *waits) {
			w.s.set(asking("q"))
			<-w.ended
			var lacking *engine.UnsupportedError
			require.ErrorAs(w, w.err, &lacking)
			assert.Equal(w, "q", lacking.StepID)
		},
		"the server stops": func(w *waits) {
			w.s.set(asking("q"))
			<-w.way.asked
			w.silent(dialect.ErrStopping)
			<-w.ended
			assert.ErrorIs(w, w.err, dialect.ErrStopping)
		},
		"the server stops before": func(w *waits) {
			w.silent(dialect.ErrStopping)
			w.s.set(asking("q"))
			<-w.ended
			assert.ErrorIs(w, w.err, dialect.ErrStopping)
			assert.Empty(w, w.way.asked)
		},
		"the client says no more, and nobody else has to": func(w *waits) {
			w.silent(dialect.ErrSessionEnded)
			synctest.Wait()
			w.s.set(func(t *tasks.Task) { t.Rests = true })
			<-w.ended
			assert.ErrorIs(w, w.err, dialect.ErrSessionEnded)
		},
		"the client says no more while its task works": func(w *waits) {
			w.silent(dialect.ErrSessionEnded)
			time.Sleep(time.Minute)
			w.way.end(w.s, tasks.Completed)
			<-w.ended
			assert.NoError(w, w.err)
		},
		"the request is cancelled": func(w *waits) {
			w.s.set(asking("q"))
			<-w.way.asked
			w.cancel(dialect.ErrCancelled)
			<-w.ended
			assert.Equal(w, dialect.ErrCancelled, w.err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, way := newScripted(), newSaid()
				if name == "it shows that it is alive" {
					way.notes = make(chan string, 1000)
				}
				reader, silent := newReader(t, s, way)
				switch name {
				case "the client takes too long":
					reader.late = time.Minute
				case "the client cannot be asked that":
					reader.features = steps.Features{}
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				w := &waits{T: t, s: s, way: way, silent: silent, cancel: cancel, ended: make(chan struct{})}
				defer func() {
					cancel(nil)
					<-w.ended
				}()
				go func() {
					defer close(w.ended)
					w.task, w.err = reader.follow(ctx, 0)
				}()
				synctest.Wait()
				run(w)
			})
		})
	}
}
