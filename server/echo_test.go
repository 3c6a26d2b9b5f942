package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/server/internal/echo"
)

// A dialect that nobody else knows of is served by every transport.
func TestAnotherDialect(t *testing.T) {
	s, err := server.NewWith(server.Options{Keys: newKeys(t), Tools: []saga.Definition{complextool.Tool}}, echo.New)
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
