package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// hold is a tool that holds something, asks, and panics if it is told to.
func hold(held map[saga.Key]bool) saga.Definition {
	effect := &saga.Effect[string, bool]{
		Name: "hold",
		Do: func(_ context.Context, key saga.Key, _ string) (bool, error) {
			held[key] = true
			return true, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error {
			delete(held, p.Key)
			return nil
		},
	}
	type args struct {
		What string `json:"what"`
	}
	return saga.Flow[args, string]{
		Info: saga.Info{Name: "hold", Asks: []steps.Question{leakAsk}, Effects: []saga.Declared{effect}},
		Run: func(r *saga.Run, in args) (string, error) {
			if _, err := saga.Do(r, effect, in.What); err != nil {
				return "", err
			}
			form, err := saga.Ask(r, leakAsk)
			if err == nil && !form.Sure {
				panic("oops")
			}
			return "held", err
		},
	}
}

func newHold(t *testing.T) (r *Runner, q Request, held map[saga.Key]bool, log *bytes.Buffer) {
	held, log = make(map[saga.Key]bool), new(bytes.Buffer)
	r = newRunner(t, hold(held))
	r.Log, r.UndoGrace = slog.New(slog.NewTextHandler(log, nil)), DefaultUndoGrace
	return r, Request{Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "hold"), Arguments: json.RawMessage(`{"what":"a room"}`)}, held, log
}

func answer(sure bool) []steps.Answer {
	return []steps.Answer{{StepID: "sure", Result: fmt.Appendf(nil, `{"action":"accept","content":{"sure":%v}}`, sure)}}
}

func TestTokensAreOfOnePolicy(t *testing.T) {
	r, q, held, log := newHold(t)
	all := []Policy{Carried, Resent, Held}
	for _, sealed := range all {
		q.Policy, q.Token = sealed, ""
		first, err := r.Call(t.Context(), q)
		require.NoError(t, err)
		require.NotEmpty(t, first.Token)
		for _, q.Policy = range all {
			q.Token, q.Answers = first.Token, answer(true)
			_, err := r.Resume(t.Context(), q)
			assert.Equal(t, q.Policy != sealed, errors.Is(err, tokens.ErrRejected), "%v by %v", sealed, q.Policy)
		}
		assert.Contains(t, log.String(), "token refused")
		q.Policy, q.Answers = Held, nil
		end, err := r.Cancel(t.Context(), q, Carried, Resent)
		require.NoError(t, err, "%v", sealed)
		assert.Contains(t, end.Result.Content.Text(), "Cancelled.")
		log.Reset()
	}
	assert.Empty(t, held)
	assert.Empty(t, log.String(), "that a token is of another policy is not worth a word")
}

// A turn whose response was lost is cancelled with what it had: the arguments of the first
// turn, which only some clients send again, and the answers.
func TestCancelWithAnswers(t *testing.T) {
	for _, policy := range []Policy{Carried, Resent} {
		for _, first := range []Policy{Carried, Resent} {
			r, q, held, _ := newHold(t)
			q.Policy = policy
			begun, err := r.Call(t.Context(), q)
			require.NoError(t, err)
			q.Policy, q.Token, q.Answers = first, begun.Token, answer(true)
			if policy == Carried {
				q.Arguments = nil
			}
			end, err := r.Cancel(t.Context(), q, Carried, Resent)
			require.NoError(t, err)
			assert.Equal(t, "held", end.Result.Content.Text(), "the turn is taken as it was, so it is too late")
			assert.Len(t, held, 1)
		}
	}
}

// A turn that breaks off is undone at once if nobody can take it again, and only then.
func TestBrokenTurns(t *testing.T) {
	for _, policy := range []Policy{Carried, Resent, Held} {
		r, q, held, log := newHold(t)
		q.Policy = policy
		first, err := r.Call(t.Context(), q)
		require.NoError(t, err)
		q.Token, q.Answers = first.Token, answer(false)
		_, err = r.Resume(t.Context(), q)
		var panicked *engine.PanicError
		require.ErrorAs(t, err, &panicked)
		var undone *engine.UndoneError
		assert.Equal(t, policy.UndoBroken, errors.As(err, &undone))
		assert.Equal(t, policy.UndoBroken, len(held) == 0)
		assert.Contains(t, log.String(), "turn failed")
		assert.Contains(t, log.String(), "stack=")
	}
}

// What a tool says of a turn that was cancelled is not how it ended.
func TestCancelledTurnIsNoFailureOfTheTool(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newRunner(t, saga.Flow[struct{}, string]{Info: saga.Info{Name: "t"}, Run: func(*saga.Run, struct{}) (string, error) {
		cancel()
		return "", saga.Failf("the bank does not answer: %w", ctx.Err())
	}})
	log := new(bytes.Buffer)
	r.Log = slog.New(slog.NewTextHandler(log, nil))
	_, err := r.Call(ctx, Request{Policy: Carried, Program: r.Registry.Find(engine.KindTool, "t")})
	require.ErrorIs(t, err, context.Canceled)
	assert.Contains(t, log.String(), `level=INFO msg="turn cancelled"`)
}

// asked is a client for [Runner.Drive].
type asked func(ctx context.Context, list []steps.Step) ([]steps.Answer, error)

func (f asked) Ask(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
	return f(ctx, list)
}

func TestDrive(t *testing.T) {
	gone := fmt.Errorf("hung up: %w", ErrGone)
	for name, test := range map[string]struct {
		client asked
		text   string // of the result
		err    error
		held   bool
		log    string
	}{
		"to the end": {client: func(context.Context, []steps.Step) ([]steps.Answer, error) { return answer(true), nil }, text: "held", held: true},
		"a client that does not answer": {client: func(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
			<-ctx.Done()
			return make([]steps.Answer, len(list)), nil
		}, text: "(error -32001)", log: "tool stopped"},
		"a client that answers nonsense": {client: func(context.Context, []steps.Step) ([]steps.Answer, error) {
			return []steps.Answer{{Result: json.RawMessage(`{"action":"maybe"}`)}}, nil
		}, text: "(error -32602)", log: "answer not usable"},
		"a client that is gone": {client: func(context.Context, []steps.Step) ([]steps.Answer, error) { return nil, gone }, err: gone, log: "level=INFO msg=\"turn cancelled\""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, q, held, log := newHold(t)
				q.Policy, q.Method = Held, "tools/call"
				begun := time.Now()
				out, err := r.Drive(t.Context(), q, test.client)
				require.ErrorIs(t, err, test.err)
				assert.Less(t, time.Since(begun), tokens.DefaultTTL, "the token is still good")
				if test.err == nil {
					assert.Contains(t, out.Result.Content.Text(), test.text)
				}
				assert.Equal(t, test.held, len(held) > 0)
				assert.Contains(t, log.String(), test.log)
			})
		})
	}
}

// grim is a text that cannot be read.
type grim string

func (*grim) UnmarshalText([]byte) error { panic("oops") }

// An answer whose type panics has broken the turn off: the client has no token with which it could cancel.
func TestDriveUndoesWhereAnAnswerPanics(t *testing.T) {
	undone := 0
	ask := &steps.Form[struct {
		Sure grim `json:"sure"`
	}]{ID: "sure", Message: "Sure?"}
	effect := &saga.Effect[string, bool]{Name: "hold", Do: func(context.Context, saga.Key, string) (bool, error) { return true, nil },
		Undo: func(context.Context, saga.Performed[string, bool]) error { undone++; return nil }}
	r := newRunner(t, saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "t", Asks: []steps.Question{ask}, Effects: []saga.Declared{effect}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, effect, "a room"); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, ask)
			return "", err
		},
	})
	_, err := r.Drive(t.Context(), Request{Policy: Held, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "t")},
		asked(func(context.Context, []steps.Step) ([]steps.Answer, error) {
			return []steps.Answer{{Result: json.RawMessage(`{"action":"accept","content":{"sure":"yes"}}`)}}, nil
		}))
	require.ErrorAs(t, err, new(*engine.PanicError))
	assert.Equal(t, 1, undone)
}

// Code of an author's that is no turn can do no more harm than one.
func TestProtect(t *testing.T) {
	r, q, _, log := newHold(t)
	r.Timeout = time.Millisecond
	for says, f := range map[string]func(context.Context) error{
		"turn failed":    func(context.Context) error { panic("oops") },
		"turn timed out": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		_, err := Protect(t.Context(), r, "completion/complete", q.Program, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, f(ctx)
		})
		require.ErrorAs(t, err, new(*Error))
		assert.Contains(t, log.String(), says)
		assert.Contains(t, log.String(), "method=completion/complete tool=hold")
		log.Reset()
	}
	got, err := Protect(t.Context(), r, "", q.Program, func(context.Context) (int, error) { return 1, nil })
	require.NoError(t, err)
	assert.Equal(t, 1, got)
}
