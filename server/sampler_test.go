package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// says is a sampler that repeats what it was asked.
func says(_ context.Context, q *steps.SampleRequest) (*steps.SampleResult, error) {
	text := fmt.Sprintf("%s (%d tools)", q.Messages[0].Content.Text(), len(q.Tools))
	return &steps.SampleResult{Role: content.Assistant, Content: content.Blocks{content.Text{Text: text}}, Model: "own"}, nil
}

// sampling is a tool that says what the model said.
func sampling(name string, q *steps.Sample, also ...steps.Question) saga.Machine[none, none] {
	asks := append([]steps.Question{q}, also...)
	return saga.Machine[none, none]{
		Info: saga.Info{Name: name, Description: "Samples.", Asks: asks},
		Start: func(t *plain) (saga.Next, error) {
			all := make([]steps.Request, len(asks))
			for i := range asks {
				all[i] = asks[i]
			}
			return t.Ask("said", all...)
		},
		Steps: saga.Steps[none, none]{"said": func(t *plain) (saga.Next, error) {
			said, err := q.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Textf("the model said %q", said.Text())
		}},
	}
}

func samplerTools() []saga.Definition {
	rounds := 0
	forever := sampling("forever", askModel)
	forever.Steps["said"] = func(t *plain) (saga.Next, error) {
		rounds++
		return t.Ask("said", askModel)
	}
	longest, asked := sampling("longest", askModel), 1
	longest.Steps["said"] = func(t *plain) (saga.Next, error) {
		if asked++; asked > 100 {
			return t.Textf("after %d answers", asked-1)
		}
		return t.Ask("said", askModel)
	}
	return []saga.Definition{sampling("ask", askModel), sampling("agent", askTools), sampling("both", askModel, askName), forever, longest}
}

func TestSampler(t *testing.T) {
	r := newRig(t, server.Options{Questions: unasked, Tools: samplerTools(), Sampler: says})
	sampler := object{"sampling": object{}}
	t.Run("answers what the client cannot", func(t *testing.T) {
		got := r.send(callTool("ask", nil)).result(t)
		assert.Equal(t, `the model said "Say hello (0 tools)"`, got.text())
	})
	t.Run("not what the client can", func(t *testing.T) {
		got := r.send(callTool("ask", nil).with(sampler)).result(t)
		assert.Equal(t, map[string]string{"model": "sampling/createMessage"}, got.asked())
	})
	t.Run("tools, for a client that samples without", func(t *testing.T) {
		got := r.send(callTool("agent", nil).with(sampler)).result(t)
		assert.Equal(t, `the model said "Use it (1 tools)"`, got.text())
	})
	t.Run("its part of several steps", func(t *testing.T) {
		form := object{"elicitation": object{}}
		got := r.send(callTool("both", nil).with(form)).result(t)
		assert.Equal(t, map[string]string{"user_name": "elicitation/create"}, got.asked())
		end := r.send(callTool("both", nil).with(form).answering(got.RequestState, object{"user_name": accept("name", "Ada")})).result(t)
		assert.Equal(t, `the model said "Say hello (0 tools)"`, end.text(), "what it said is in the state")
		assert.Equal(t, -32021, r.send(callTool("both", nil)).code(), "it cannot fill in forms")
	})
	t.Run("when a client no longer can", func(t *testing.T) {
		state := r.state(callTool("ask", nil))
		got := r.send(callTool("ask", nil).answering(state, nil)).result(t)
		assert.Contains(t, got.text(), "Say hello")
	})
	t.Run("malformed answers sent ahead do not reach for the client's model", func(t *testing.T) {
		form := object{"elicitation": object{}}
		got := r.send(callTool("both", nil).with(form).answering("", object{"user_name": object{"action": "maybe"}})).result(t)
		assert.Equal(t, map[string]string{"user_name": "elicitation/create"}, got.asked())
	})
	t.Run("over stdio", func(t *testing.T) {
		s, err := server.New(server.Options{Keys: newKeys(t), Tools: samplerTools(), Sampler: says})
		require.NoError(t, err)
		assert.Contains(t, lines(t, s, callTool("ask", nil).body()+"\n")[0], "Say hello")
	})
	t.Run("as often as it may", func(t *testing.T) {
		assert.Equal(t, "after 100 answers", r.send(callTool("longest", nil)).result(t).text())
	})
	assert.Empty(t, r.log.take())
	t.Run("not without end", func(t *testing.T) {
		got := r.send(callTool("forever", nil))
		assert.Equal(t, -32603, got.code())
		assert.Contains(t, r.log.take(), "100 times in one turn")
	})
}

// Whatever the model does, the tool or the client learns no more than that it
// failed; the log has the reason.
func TestSamplerFailures(t *testing.T) {
	samplers := map[string]func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error){
		"error": func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) {
			return nil, errors.New("secret")
		},
		"nothing": func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) { return nil, nil },
		"panic":   func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) { panic("secret") },
		"no role": func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) {
			return &steps.SampleResult{Content: content.Blocks{content.Text{Text: "secret"}}}, nil
		},
	}
	for name, sampler := range samplers {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server.Options{Tools: samplerTools(), Sampler: sampler})
			got := r.send(callTool("ask", nil)).result(t)
			assert.True(t, got.IsError)
			assert.Contains(t, got.text(), "could not be performed")
			assert.NotContains(t, got.text(), "secret")
			assert.Contains(t, r.log.take(), "the server's model failed")
		})
	}
	t.Run("time", func(t *testing.T) {
		r := newRig(t, server.Options{Tools: samplerTools(), TurnTimeout: 50 * time.Millisecond, Sampler: func(ctx context.Context, _ *steps.SampleRequest) (*steps.SampleResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		assert.Contains(t, r.send(callTool("ask", nil)).raw, "too long")
	})
}

// books is a tool that holds a room and then asks the model.
func books(held map[saga.Key]bool) saga.Definition {
	room := holds("room", held)
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "book", Asks: []steps.Question{askModel}, Effects: []saga.Declared{room}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, room, "7"); err != nil {
				return "", err
			}
			said, err := saga.Ask(r, askModel)
			return said.Text(), err
		},
	}
}

// What a saga did before it failed without its client's knowledge is undone.
func TestSamplerFailureUndoes(t *testing.T) {
	held := map[saga.Key]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	r := newRig(t, server.Options{Tools: []saga.Definition{books(held)}, TurnTimeout: time.Minute, Sampler: func(inner context.Context, _ *steps.SampleRequest) (*steps.SampleResult, error) {
		cancel() // the client goes away while the model thinks
		<-inner.Done()
		return nil, inner.Err()
	}})
	req := r.httpRequest(ctx, callTool("book", nil))
	_, err := r.client().Do(req)
	require.Error(t, err)
	require.Eventually(t, func() bool { return strings.Contains(r.log.take(), "turn cancelled") }, time.Minute, 5*time.Millisecond)
	assert.Empty(t, held)
}

// A call in a session whose question the model does not answer in time ends, and what it did is undone,
// with a ledger too.
func TestSamplerIsTooSlowForACall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		held := map[saga.Key]bool{}
		store := ledger.NewMemory(ledger.MemoryOptions{})
		t.Cleanup(func() { _ = store.Close() })
		calls := 0
		r := newRig(t, server.Options{Tools: []saga.Definition{books(held)}, Ledger: store, TurnTimeout: time.Minute, Sampler: func(ctx context.Context, q *steps.SampleRequest) (*steps.SampleResult, error) {
			assert.Len(t, held, 1)
			if calls++; calls > 1 {
				return says(ctx, q)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		said := r.connect("2025-11-25", "{}").ask(toolCall(1, "book", "{}"))
		assert.Contains(t, said, "The tool took too long. What it did was undone.")
		assert.Empty(t, held)
	})
}
