package client_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// replica starts a server of this project with the given keys.
func replica(t *testing.T, keys *codec.Keyset) (*client.Client, *httptest.Server) {
	t.Helper()
	s, err := server.New(server.Options{
		Tools: []saga.Definition{complextool.Tool}, Keys: keys, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	c := client.New(&client.HTTP{URL: h.URL + server.Endpoint}, client.Options{})
	t.Cleanup(func() { _ = c.Close() })
	return c, h
}

// TestRealServers drives one call over three servers that share a keyset, each
// gone before the next starts, through a position that was saved as JSON.
func TestRealServers(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	var who people
	handlers := who.handlers()
	answered := 0
	handlers.OnPosition = func(_ context.Context, p client.Position) error {
		if len(p.Answers) > answered {
			answered = len(p.Answers)
			return client.ErrPause
		}
		return nil
	}
	first, gone := replica(t, keys)
	tools, err := first.Tools(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, 1)
	assert.True(t, tools[0].IsSaga())

	_, err = first.Call(t.Context(), "complex_tool", map[string]any{"initial_arg": "a <b> & \u2028 c"}, handlers)
	require.ErrorIs(t, err, client.ErrPause)
	gone.Close()

	second, gone := replica(t, keys)
	_, err = second.Resume(t.Context(), throughJSON(t, interrupted(t, err)), handlers)
	require.ErrorIs(t, err, client.ErrPause)
	gone.Close()

	third, _ := replica(t, keys)
	got, err := third.Resume(t.Context(), throughJSON(t, interrupted(t, err)), handlers)
	require.NoError(t, err)
	assert.Equal(t, "Deployment to production initiated successfully based on confirmation.", got.Content.Text())
	assert.Equal(t, people{elicited: 1, sampled: 1}, who)
}

func TestRealServerRefusesForeignTokens(t *testing.T) {
	mine, err := codec.NewKeyset()
	require.NoError(t, err)
	theirs, err := codec.NewKeyset()
	require.NoError(t, err)
	handlers := client.Handlers{Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
		return nil, client.ErrPause
	}}
	here, _ := replica(t, mine)
	_, err = here.Call(t.Context(), "complex_tool", map[string]any{"initial_arg": "x"}, handlers)
	require.ErrorIs(t, err, client.ErrPause)

	var who people
	there, _ := replica(t, theirs)
	_, err = there.Resume(t.Context(), interrupted(t, err), who.handlers())
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.EqualValues(t, -32602, refused.Code)
}
