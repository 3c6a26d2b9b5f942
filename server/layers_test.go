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
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// layered is the second turn of the proposal's saga, taken apart: it opens a token,
// runs the tool's code and seals the next token.
type layered struct {
	s        *Server
	tool     *engine.Program
	turn     turns.Request
	binding  codec.Binding
	request  string
	token    string
	contents *codec.Contents
	answers  []steps.Answer
	next     turns.End
	position *engine.Position
}

func newLayered(t testing.TB) *layered {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := New(Options{Keys: keys, Tools: []saga.Definition{complextool.Tool}, Audience: "layers", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	l := &layered{s: s, tool: s.tools.Lookup("complex_tool"), binding: codec.Binding{Purpose: turns.Carried.Purpose},
		turn: turns.Request{Policy: turns.Carried, Client: steps.AllFeatures}}
	call := l.turn
	call.Program, call.Arguments = l.tool, json.RawMessage(`{"initial_arg":"value"}`)
	first, err := s.turns.Call(t.Context(), call)
	require.NoError(t, err)
	l.token = first.Token
	l.request = `{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":"` + l.token + `","completedSteps":[` +
		`{"stepId":"step-elicitation-A","result":{"action":"accept","content":{"target":"production"}}}]}}`
	l.contents, err = s.codec.Open(l.binding, time.Now(), l.token)
	require.NoError(t, err)
	l.answers = l.read()
	require.Len(t, l.answers, 1)
	l.position = l.engine(t).Position
	l.turn.Token, l.turn.Answers = l.token, l.answers
	l.next, err = s.turns.Resume(t.Context(), l.turn)
	require.NoError(t, err)
	return l
}

func (l *layered) read() []steps.Answer {
	m, fail := wire.Parse([]byte(l.request))
	if fail != nil || eraOf(&m, nil) != eraSaga {
		return nil
	}
	var p resumeSagaParams
	if p.read(m.Params) != nil {
		return nil
	}
	answers, _ := stepAnswers(p.results)
	return answers
}

func (l *layered) decode(t testing.TB) *engine.Position {
	c := l.contents.Claims
	pos := &engine.Position{ID: saga.ID(c.ID), Turn: c.Turn, Tool: c.Tool, Revision: c.Revision}
	require.NoError(t, pos.Restore(engine.Encoded{Body: l.contents.State, State: l.contents.Apart, Effects: l.contents.Plain, Secrets: l.contents.Secret}))
	return pos
}

func (l *layered) engine(t testing.TB) *engine.Outcome {
	out, err := l.tool.Resume(context.Background(), l.decode(t), engine.Resumption{Now: time.Now(), Client: steps.AllFeatures, Answers: l.answers})
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
		{"open", func() { _, _ = l.s.codec.Open(l.binding, now, l.token) }},
		{"decode", func() { l.decode(b) }},
		{"engine", func() { l.engine(b) }},
		{"encode", func() { l.position.Encode() }},
		{"seal", func() {
			_, _ = l.s.codec.Seal(l.binding, now, &codec.Contents{Claims: claims, State: encoded.Body, Apart: encoded.State, Plain: encoded.Effects, Secret: encoded.Secrets})
		}},
		{"write", func() {
			w.Body.Reset()
			room := l.s.buffers.Get()
			response, _ := appendSagaResult(wire.BeginResponse(*room, []byte("2")), &l.next)
			writeJSON(w, http.StatusOK, append(response, '}'))
			l.s.buffers.Put(room, response)
		}},
		{"open to seal", func() { _, _ = l.s.turns.Resume(ctx, l.turn) }},
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
