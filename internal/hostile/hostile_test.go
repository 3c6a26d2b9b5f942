package hostile_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/hostile"
	"github.com/mcpsaga/mcpsaga/server"
)

// Every request is as large as was asked for, unless it stands where no more is read, and
// none has a hole left.
func TestRequestsAreFull(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys, Tools: hostile.Definitions(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer s.Close()
	target, err := hostile.NewTarget(s.Handler())
	require.NoError(t, err)
	const size = 2000
	for r := range target.Requests(size, nil) {
		assert.NotContains(t, string(r.Body), "@", r.Name)
		if !strings.HasSuffix(r.Name, ", nothing") {
			assert.Greater(t, r.Size(), size/4, r.Name)
		}
	}
}
