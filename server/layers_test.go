package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// layered is the second turn of the proposal's saga, taken apart: it opens a token,
// runs the tool's code and seals the next token.
type layered struct {
	s        *Server
	tool     *saga.Tool
	caller   caller
	request  string
	token    string
	contents *tokens.Contents
	answers  []steps.Answer
	next     turn
	position *saga.Position
}

func newLayered(t testing.TB) *layered {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := New(Options{Keys: keys, Tools: []saga.Definition{complextool.Tool}, Audience: "layers", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	l := &layered{s: s, tool: s.tools.Lookup("complex_tool"), caller: caller{features: steps.AllFeatures, purpose: purposeSaga}}
	first, err := s.call(t.Context(), l.caller, l.tool, json.RawMessage(`{"initial_arg":"value"}`))
	require.NoError(t, err)
	l.token = first.token
	l.request = `{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":"` + l.token + `","completedSteps":[` +
		`{"stepId":"step-elicitation-A","result":{"action":"accept","content":{"target":"production"}}}]}}`
	l.contents, err = s.codec.Open(l.caller.binding(), time.Now(), l.token)
	require.NoError(t, err)
	l.answers = l.read()
	require.Len(t, l.answers, 1)
	l.position = l.engine(t).Position
	l.next, err = s.resume(t.Context(), l.caller, nil, nil, l.token, l.answers)
	require.NoError(t, err)
	return l
}

func (l *layered) read() []steps.Answer {
	m, fail := parseMessage([]byte(l.request))
	if fail != nil || eraOf(&m, nil) != eraSaga {
		return nil
	}
	var p resumeSagaParams
	if p.read(m.params) != nil {
		return nil
	}
	answers, _ := stepAnswers(p.results)
	return answers
}

func (l *layered) decode(t testing.TB) *saga.Position {
	c := l.contents.Claims
	pos := &saga.Position{ID: saga.ID(c.ID), Turn: c.Turn, Tool: c.Tool, Revision: c.Revision}
	require.NoError(t, pos.Restore(saga.Encoded{Body: l.contents.State, State: l.contents.Apart, Effects: l.contents.Plain, Secrets: l.contents.Secret}))
	return pos
}

func (l *layered) engine(t testing.TB) *saga.Outcome {
	out, err := l.tool.Resume(context.Background(), l.decode(t), saga.Resumption{Now: time.Now(), Client: steps.AllFeatures, Answers: l.answers})
	require.NoError(t, err)
	return out
}

// BenchmarkLayers shows where the time of a turn goes. The engine's includes
// decode: in a server each turn reads its position from a token.
func BenchmarkLayers(b *testing.B) {
	l := newLayered(b)
	ctx, now := b.Context(), time.Now()
	encoded := l.position.Encode()
	claims := l.contents.Claims
	response, err := appendSagaResult(nil, &l.next)
	require.NoError(b, err)
	w := httptest.NewRecorder()
	for _, layer := range []struct {
		name string
		run  func()
	}{
		{"read", func() { l.read() }},
		{"open", func() { _, _ = l.s.codec.Open(l.caller.binding(), now, l.token) }},
		{"decode", func() { l.decode(b) }},
		{"engine", func() { l.engine(b) }},
		{"encode", func() { l.position.Encode() }},
		{"seal", func() {
			_, _ = l.s.codec.Seal(l.caller.binding(), now, contents(claims, encoded))
		}},
		{"write", func() {
			w.Body.Reset()
			room := l.s.memory.lend()
			response, _ := appendSagaResult(beginResponse(*room, []byte("2")), &l.next)
			writeJSON(w, http.StatusOK, append(response, '}'))
			l.s.memory.takeBack(room, response)
		}},
		{"open to seal", func() { _, _ = l.s.resume(ctx, l.caller, nil, nil, l.token, l.answers) }},
	} {
		b.Run(layer.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				layer.run()
			}
		})
	}
	b.ReportMetric(float64(len(response)), "response-B")
}

// The digest of the arguments is the saga's own: what fits one, found at leisure,
// fits no other.
func TestDigestsOfArgumentsBelongToTheirSaga(t *testing.T) {
	args := json.RawMessage(`{"to":"Ann"}`)
	one, err := digestArguments(saga.ID{1}, args)
	require.NoError(t, err)
	other, err := digestArguments(saga.ID{2}, args)
	require.NoError(t, err)
	require.NotEqual(t, one, other)
	spelt, err := digestArguments(saga.ID{1}, json.RawMessage(` { "to" : "\u0041nn" } `))
	require.NoError(t, err)
	require.Equal(t, one, spelt)

	// The client cannot know the saga's id before it has chosen the arguments.
	l := newLayered(t)
	c := caller{features: steps.AllFeatures, purpose: purposeMRTR, resends: true}
	call := func() tokens.Claims {
		begun, err := l.s.call(t.Context(), c, l.tool, json.RawMessage(`{"initial_arg":"value"}`))
		require.NoError(t, err)
		x, err := l.s.codec.Open(c.binding(), time.Now(), begun.token)
		require.NoError(t, err)
		return x.Claims
	}
	first, second := call(), call()
	require.Len(t, first.Request, 16)
	require.NotEqual(t, first.ID, second.ID)
	require.NotEqual(t, first.Request, second.Request)
}
