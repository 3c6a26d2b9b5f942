package reporeport

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Where a turn has too little time for the whole history, it counts a part, and the client
// comes back for the rest.
func TestTurnsThatAreShort(t *testing.T) {
	root := gittest.Import(t, gittest.Long(1700))
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{
		Tools: []saga.Definition{New(root)}, Keys: keys, Logger: slog.New(slog.DiscardHandler), TurnTimeout: 14 * time.Second,
	})
	require.NoError(t, err)
	defer s.Close()
	running := httptest.NewServer(s.Handler())
	defer running.Close()
	c := client.New(&client.HTTP{URL: running.URL + server.Endpoint}, client.Options{})
	defer c.Close()
	round := 0
	result, err := c.Call(t.Context(), "repo_report", nil, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			round = r.Round
			return client.Accept(map[string]any{"directories": []string{"src"}}), nil
		},
	})
	require.NoError(t, err)
	assert.False(t, result.IsError, result.Content.Text())
	assert.Contains(t, result.Content.Text(), gittest.Git(t, root, nil, "rev-list", "--count", "HEAD")+" commits")
	assert.Equal(t, 1700/atLeast+1, round, "the question is asked after pauses, one for %d commits", atLeast)
}
