package program

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Whoever has a stolen key must not be able to keep it in use by keeping the server busy.
func TestKeyIsDisabledWhenConnectionsUseUpAllFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json")
	h.ok("keys", "new")
	stolen := keyIDs(h.ok("keys", "add"))[1]
	address, server := h.serve()
	limit := unix.Rlimit{Cur: 48, Max: 48}
	require.NoError(t, unix.Prlimit(server.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil))

	// One connection is there before the others.
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	require.Len(t, askReplica(t, client, address).Keys, 2)
	target, err := url.Parse(address)
	require.NoError(t, err)
	for range 2 * limit.Cur {
		c, err := net.Dial("tcp", target.Host)
		require.NoError(t, err)
		defer c.Close()
	}
	require.Eventually(t, func() bool {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", server.Process.Pid))
		return err == nil && len(open) >= int(limit.Cur)
	}, time.Minute, 10*time.Millisecond)

	h.ok("keys", "disable", stolen)
	require.NoError(t, server.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return len(askReplica(t, client, address).Keys) == 1 }, time.Minute, 20*time.Millisecond)
}
