package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// Over HTTP hooks learn where a request came from.
func TestHooksOverHTTP(t *testing.T) {
	var infos []server.RequestInfo
	r := newRig(t, server.Options{Hooks: []server.Hooks{{Request: func(ctx context.Context, i *server.RequestInfo, next next) error {
		infos = append(infos, *i)
		return next(ctx)
	}}}})
	r.post(transcript(t)[0][0])
	r.send(modernRequest("tools/list", nil))
	r.connect("2025-11-25", "{}").ask(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	require.GreaterOrEqual(t, len(infos), 3)
	for _, i := range infos {
		assert.NotEmpty(t, i.Dialect)
		assert.True(t, strings.HasPrefix(i.Remote, "127.0.0.1:") || strings.HasPrefix(i.Remote, "[::1]:"), i.Remote)
		assert.Equal(t, "application/json", i.Header.Get("Content-Type"))
	}
	assert.Equal(t, "tools/callSaga", infos[0].Method)
	assert.Equal(t, "tools/list", infos[1].Method)
	assert.Equal(t, "ping", infos[len(infos)-1].Method)
}

// A request or a turn that is refused for now has the status that clients wait for.
func TestHooksSayWhenToTryAgain(t *testing.T) {
	for name, hooks := range map[string]server.Hooks{
		"request": {Request: func(context.Context, *server.RequestInfo, next) error {
			return server.TryAgain("soon", 6500*time.Millisecond)
		}},
		"turn": {Turn: func(context.Context, *server.TurnInfo, next) error {
			return server.TryAgain("soon", 6500*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server.Options{Hooks: []server.Hooks{hooks}})
			modern := r.httpRequest(t.Context(), callTool("complex_tool", object{"initial_arg": "value"}))
			plain, err := http.NewRequest(http.MethodPost, r.url+"/mcp", strings.NewReader(transcript(t)[0][0]))
			require.NoError(t, err)
			plain.Header.Set("Content-Type", "application/json")
			for _, q := range []*http.Request{modern, plain} {
				resp, err := r.client().Do(q)
				require.NoError(t, err)
				body := readAll(t, resp)
				assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, body)
				assert.Equal(t, "7", resp.Header.Get("Retry-After"))
				assert.Contains(t, body, `"retryable":true`)
			}
		})
	}
}
