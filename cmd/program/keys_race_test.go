package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// together runs commands at the same time. All must succeed.
func (h *home) together(commands ...[]string) (outputs []string) {
	h.t.Helper()
	outputs = make([]string, len(commands))
	var wait sync.WaitGroup
	for i, args := range commands {
		cmd := h.command(args...)
		wait.Go(func() {
			text, err := cmd.CombinedOutput()
			assert.NoError(h.t, err, "saga %s: %s", strings.Join(args, " "), text)
			outputs[i] = string(text)
		})
	}
	wait.Wait()
	return outputs
}

// statusOf returns a listing's line for a key.
func statusOf(t *testing.T, listing, id string) string {
	t.Helper()
	for line := range strings.Lines(listing) {
		if strings.HasPrefix(line, id) {
			return line
		}
	}
	require.Fail(t, "no such key", "%s in\n%s", id, listing)
	return ""
}

func TestConcurrentKeysCommandsAllTakeEffect(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json")
	h.ok("keys", "new")
	commands := make([][]string, 10)
	for i := range commands {
		commands[i] = []string{"keys", "add"}
	}
	outputs := h.together(commands...)
	listing := h.ok("keys", "list")
	require.Len(t, keyIDs(listing), 1+len(commands))
	for _, output := range outputs {
		_, id, _ := strings.Cut(output, "saga: added key ")
		statusOf(t, listing, id[:8])
	}
}

// A disable that gets lost leaves a stolen key in use.
func TestDisableIsNotLost(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json")
	h.ok("keys", "new")
	for range 12 {
		ids := keyIDs(h.ok("keys", "add"))
		id := ids[len(ids)-1]
		h.together([]string{"keys", "disable", id}, []string{"keys", "add"}, []string{"keys", "add"})
		assert.Contains(t, statusOf(t, h.ok("keys", "list"), id), "disabled")
	}
}

func TestConcurrentKeysNewCreateOneKeyset(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"xaes-256-gcm", "aes-256-ctr-hmac-sha256"} {
		h := newHome(t)
		var wait sync.WaitGroup
		created := make([]string, 12)
		for i := range created {
			cmd := h.command("keys", "new", "--keyset", "k.json", "--type", kind)
			wait.Go(func() {
				out, err := cmd.Output()
				if exitOf(t, err) == 0 {
					created[i] = string(out)
				}
			})
		}
		wait.Wait()
		assert.Equal(t, h.ok("keys", "list", "--keyset", "k.json"), strings.Join(created, ""), "exactly one says that it created the keyset")
	}
}

// leftovers are the files that may hold keys in the clear, but for the keyset.
func leftovers(t *testing.T, h *home) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, ".k.json.*.tmp"))
	require.NoError(t, err)
	return found
}

func TestKilledKeysCommandsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json")
	h.ok("keys", "new")
	for end := time.Now().Add(time.Minute); len(leftovers(t, h)) == 0; {
		require.True(t, time.Now().Before(end), "no kill came in the middle of writing")
		cmd := h.command("keys", "add")
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		for running := true; running && len(leftovers(t, h)) == 0; {
			select {
			case <-ended:
				running = false
			default:
			}
		}
		_ = cmd.Process.Kill()
		<-ended
	}
	keys := len(keyIDs(h.ok("keys", "list")))
	others := h.file(".k.json.notes.tmp", "of somebody else")
	h.ok("keys", "add")
	assert.Equal(t, []string{others}, leftovers(t, h), "and what is not ours stays")
	assert.Len(t, keyIDs(h.ok("keys", "list")), keys+1)
}

func TestKeysetBehindALinkStaysThere(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "real"), 0o700))
	h.ok("keys", "new", "--keyset", "real/k.json")
	require.NoError(t, os.Symlink("real/k.json", filepath.Join(h.dir, "k.json")))
	commands := make([][]string, 6)
	for i := range commands {
		commands[i] = []string{"keys", "add", "--keyset", []string{"k.json", "real/k.json"}[i%2]}
	}
	h.together(commands...)
	assert.Len(t, keyIDs(h.ok("keys", "list", "--keyset", "real/k.json")), 7)
	info, err := os.Lstat(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	assert.Equal(t, os.ModeSymlink, info.Mode().Type(), "the link is still one")
	assert.Empty(t, leftovers(t, h))
}

// Whoever runs the command may be another user than the server.
func TestKeysetKeepsItsOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	path := filepath.Join(h.dir, "k.json")
	require.NoError(t, os.Chown(path, 12345, 23456))
	h.ok("keys", "add", "--keyset", "k.json")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.Contains(t, fmt.Sprintf("%+v", info.Sys()), "Uid:12345 Gid:23456")
}
