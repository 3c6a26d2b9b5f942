package program

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Nothing is called whose files could not be written. If they cannot be after all, the rest of the result is printed.
func TestFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, command := range []string{"call", "read"} {
		_, stderr, code := h.run(command, "x", "--server", "http://127.0.0.1:1/mcp", "--to", "missing")
		assert.Equal(t, exitUsage, code, "it has not looked for the server")
		assert.Contains(t, stderr, "--to: nothing can be written there: ")
		assert.Contains(t, stderr, "no such file or directory")
	}

	out := filepath.Join(h.dir, "out")
	require.NoError(t, os.Mkdir(out, 0o700))
	draw := saga.Machine[none, none]{
		Info: saga.Info{Name: "draw"},
		Start: func(turn *saga.Turn[none, none]) (saga.Next, error) {
			assert.NoError(t, os.Remove(out), "it is empty")
			return turn.Finish(&content.Result{Content: content.Blocks{content.Text{Text: "Drawn."}, content.Image{Data: []byte("png"), MIMEType: "image/png"}}})
		},
	}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{draw}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	running := httptest.NewServer(s.Handler())
	t.Cleanup(running.Close)
	stdout, stderr, code := h.run("call", "draw", "--server", running.URL+server.Endpoint, "--to", "out")
	assert.Equal(t, exitUsage, code)
	assert.Equal(t, "Drawn.\n[image, image/png, 3 bytes]\n", stdout)
	assert.Contains(t, stderr, "--to: ")
}
