package server_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/server"
)

// servedDir is the environment variable that makes of this test's binary a server, whose keys
// and ledger are in that directory.
const servedDir = "MCPSAGA_TEST_SERVED_DIR"

// TestServedProcess is the server that TestOperationsOutliveTheirServer kills.
func TestServedProcess(t *testing.T) {
	dir := os.Getenv(servedDir)
	if dir == "" {
		t.Skip("it is started by another test")
	}
	lease := time.Duration(0)
	if !longtests.Wanted() {
		lease = 2 * time.Second
	}
	keys, err := codec.LoadKeyset(filepath.Join(dir, "keys.json"))
	require.NoError(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "ledger.db"))
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: taskTools(), Keys: keys, Ledger: store, Authenticate: users, Lease: lease})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	fmt.Printf("serving http://%s/mcp\n", l.Addr())
	require.NoError(t, s.Serve(t.Context(), l))
}

// process begins a server, for the client to go on with.
func (c *legacyClient) process(dir string) (kill func()) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServedProcess$")
	cmd.Env = append(os.Environ(), servedDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.http.CloseIdleConnections()
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "serving "); ok {
			c.url = url
			return kill
		}
	}
	kill()
	require.Fail(c.t, "the server did not start")
	return nil
}

// The server is killed after each message; the client goes on with the next one in the same session.
// Unless somebody asked, leases are shorter than those of users.
func TestOperationsOutliveTheirServer(t *testing.T) {
	if testing.Short() {
		t.Skip("leases have to end")
	}
	t.Parallel()
	dir := t.TempDir()
	_, err := codec.CreateKeysetFile(filepath.Join(dir, "keys.json"))
	require.NoError(t, err)
	first := &rig{t: t}
	var kill func()
	c := first.connect("2025-11-25", asyncTools, byUser("ann"), func(c *legacyClient) { kill = c.process(dir) })
	defer func() { kill() }()
	again := func() {
		t.Helper()
		kill()
		kill = c.process(dir)
	}
	// slowly is until, for what may wait for a lease to end.
	slowly := func(happened func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !happened(); time.Sleep(50 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "it has not happened")
		}
	}
	question := func() (q legacyMessage) {
		t.Helper()
		slowly(func() bool {
			_, asked := c.polled("t")
			if len(asked) > 0 {
				q = asked[len(asked)-1]
			}
			return len(asked) > 0
		})
		return q
	}
	again()
	c.begin(1, "twice", `{}`, "t")
	again()
	code, _ := c.refused(operation(2, "twice", `{}`, `{"token":"t"}`))
	assert.Equal(t, -32602, code, "the token is used")
	one := question()
	again()
	c.reply(one.ID, acceptedFor("t", `{"sure":true}`)) // to a process that has not asked
	again()
	two := question()
	assert.NotEqual(t, one.ID, two.ID)
	again()
	c.vain(one.ID, acceptedFor("t", `{"sure":false}`))
	c.reply(two.ID, acceptedFor("t", `{"sure":true}`))
	again()
	slowly(func() bool { return c.status("t").Status == "completed" })
	result := c.ask(asyncMessage(3, "result", "t"))
	assert.Contains(t, result, "sure enough")
	again()
	assert.Equal(t, result, c.ask(asyncMessage(3, "result", "t")))

	c.begin(4, "nap", `{"millis":600000}`, "n")
	again()
	require.Equal(t, 202, c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`).StatusCode)
	assert.Equal(t, "canceled", c.status("n").Status)
	again()
	assert.Equal(t, "canceled", c.status("n").Status)
}
