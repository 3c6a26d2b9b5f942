package program

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readiness is what a replica says at /readyz.
type readiness struct {
	Keys []struct {
		ID string `json:"id"`
	} `json:"keys"`
	StaleSince time.Time `json:"keysStaleSince"`
}

// askReplica returns what a server says at /readyz.
func askReplica(t *testing.T, c *http.Client, address string) (ready readiness) {
	t.Helper()
	response, err := c.Get(strings.TrimSuffix(address, "/mcp") + "/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode, "a replica that cannot reload its keys still serves")
	require.NoError(t, json.NewDecoder(response.Body).Decode(&ready))
	return ready
}

// As the log advises, the mode is corrected, which changes nothing else of the file.
func TestKeysetIsReloadedWhenItsModeIsCorrected(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json", lookEvery+"=200ms")
	h.ok("keys", "new")
	stolen := keyIDs(h.ok("keys", "add"))[1]
	address, server := h.serve()
	require.Len(t, readyKeys(t, address), 2)

	// In one step, as the server may look at any time.
	path := filepath.Join(h.dir, "k.json")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	next := h.file("next.json", string(data))
	h.ok("keys", "disable", stolen, "--keyset", next)
	fresh := keyIDs(h.ok("keys", "add", "--keyset", next))[2]
	require.NoError(t, os.Chmod(next, 0o644))
	require.NoError(t, os.Rename(next, path))
	require.NoError(t, server.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return !askReplica(t, http.DefaultClient, address).StaleSince.IsZero() }, time.Minute, 20*time.Millisecond)
	require.Len(t, readyKeys(t, address), 2)
	require.NoError(t, os.Chmod(path, 0o600))
	require.Eventually(t, func() bool {
		ready := askReplica(t, http.DefaultClient, address)
		return len(ready.Keys) == 2 && ready.Keys[1].ID == fresh && ready.StaleSince.IsZero()
	}, time.Minute, 50*time.Millisecond, "the stolen key is not in use any more, the fresh one is")
}
