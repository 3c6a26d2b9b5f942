package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

const echoMethod = "echo/call"

// echoPolicy keeps the dialect's tokens apart from those of others.
var echoPolicy = turns.Policy{Purpose: "echo"}

// echo is a dialect that only tests serve: tools/call under another method, with a
// result that repeats the request. It shows all that a dialect needs.
type echo struct{ *dialect.Host }

// newEcho is of the type [dialect.New].
func newEcho(h *dialect.Host) (dialect.Dialect, error) { return echo{h}, nil }

// Name implements [dialect.Dialect].
func (echo) Name() string { return "echo" }

// Match implements [dialect.Dialect].
func (echo) Match(m *wire.Message, _ http.Header) bool { return m.Method == echoMethod }

// Serve implements [dialect.Dialect]. Without a token it begins a saga, with one it continues.
func (d echo) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	var p struct {
		Name      string                     `json:"name"`
		Arguments json.RawMessage            `json:"arguments"`
		Token     string                     `json:"token"`
		Answers   map[string]json.RawMessage `json:"answers"`
	}
	if rerr := wire.DecodeParams(x.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	tool, _, err := d.Tool(ctx, p.Name, nil)
	if err != nil {
		return nil, d.Translate(ctx, echoMethod, err)
	}
	q := x.Turn(echoPolicy)
	q.Program, q.Arguments, q.Token, q.Client = tool, p.Arguments, p.Token, steps.AllFeatures()
	for id, result := range p.Answers {
		q.Answers = append(q.Answers, steps.Answer{StepID: id, Result: result})
	}
	take := d.Turns.Call
	if p.Token != "" {
		take, q.Arguments = d.Turns.Resume, nil
	}
	end, err := take(ctx, q)
	if err != nil {
		return nil, d.Translate(ctx, echoMethod, err)
	}
	said, err := wire.Marshal(map[string]any{"echo": x.Message.Params, "token": end.Token, "asks": end.Steps, "result": end.Result})
	if err != nil {
		return nil, d.Translate(ctx, echoMethod, err)
	}
	return said, nil
}

// A dialect that nobody else knows of is served by every transport.
func TestAnotherDialect(t *testing.T) {
	s, err := server.NewWith(server.Options{Keys: newKeys(t), Tools: []saga.Definition{complextool.Tool}}, newEcho)
	require.NoError(t, err)
	handler := s.Handler()
	transports := map[string]func(method, params string) jsontest.Value{
		"HTTP": func(method, params string) jsontest.Value {
			return jsontest.Get(postTo(t, handler, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)), "result")
		},
		"stdio": func(method, params string) jsontest.Value {
			var out bytes.Buffer
			in := strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
			require.NoError(t, s.ServeStdio(t.Context(), in, &out))
			return jsontest.Get(out.Bytes(), "result")
		},
		"in process": func(method, params string) jsontest.Value {
			result, err := s.Handle(t.Context(), &server.Request{Method: method, Params: json.RawMessage(params)})
			require.NoError(t, err)
			return jsontest.Parse(result)
		},
	}
	for name, ask := range transports {
		t.Run(name, func(t *testing.T) {
			first := ask("echo/call", `{"name":"complex_tool","arguments":{"initial_arg":"value"}}`)
			assert.Equal(t, "value", first.Get("echo.arguments.initial_arg").String(), first.Raw)
			require.NotEmpty(t, first.Get("token").String(), first.Raw)
			second := ask("echo/call", fmt.Sprintf(
				`{"name":"complex_tool","token":%q,"answers":{"step-elicitation-A":{"action":"accept","content":{"target":"production"}}}}`, first.Get("token").String()))
			assert.Contains(t, second.Get("asks").Raw, "step-sampling-B", second.Raw)
			// The others are there as ever.
			assert.Equal(t, "suspended", ask("tools/callSaga", `{"name":"complex_tool","arguments":{"initial_arg":"value"}}`).Get("state").String())
		})
	}
}
