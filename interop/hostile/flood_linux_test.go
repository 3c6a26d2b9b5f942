package hostile_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

const flooded = "MCPSAGA_TEST_FLOODED"

// TestFloodedProcess is the server of TestFloodOfLargeRequests.
func TestFloodedProcess(t *testing.T) {
	if os.Getenv(flooded) == "" {
		t.Skip("it is started by another test")
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: Definitions(), Ledger: store})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(t.Context(), l) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// Strangers who send the worst that there is at once, of nearly the largest size, do not take the memory that
// packaging/kubernetes gives a server. Some are served, others are to come again, and small requests are answered meanwhile.
func TestFloodOfLargeRequests(t *testing.T) {
	if raceEnabled || !longtests.Wanted() {
		t.Skip("sends a gigabyte; the race detector takes memory of its own")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFloodedProcess$")
	cmd.Env = append(os.Environ(), flooded+"=1", "GOGC=100", "GOMEMLIMIT=off")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the server did not start")
	post := func(tool, argument, value string) (int, http.Header, error) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":%q,"arguments":{%q:%s}}}`, tool, argument, value)
		q, err := http.NewRequest(http.MethodPost, "http://"+lines.Text()+"/mcp", strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		q.Header.Set("Content-Type", "application/json")
		q.Close = true
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header, err
	}
	const size, most = 900_000, 400 << 10
	strangers := 60 // more than may send at once
	if os.Getenv("SAGA_NIGHTLY") == "1" {
		strangers = 300
	}
	for _, flood := range []struct {
		tool, argument string
		value          func(int) string
	}{
		{"take", "text", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%x":0`, i) })},
		{"take", "list", listOf("0")},
		{"take", "any", listOf(`{"":0}`)},
		{"strict", "any", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%x":0`, i) })},
		{"ask", "text", quoted("x")},
	} {
		value := flood.value(size)
		var mu sync.Mutex
		got := map[int]int{}
		var all sync.WaitGroup
		for range strangers {
			all.Go(func() {
				status, header, err := post(flood.tool, flood.argument, value)
				assert.NoError(t, err)
				assert.Equal(t, status == http.StatusServiceUnavailable, header.Get("Retry-After") != "")
				mu.Lock()
				defer mu.Unlock()
				got[status]++
			})
		}
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		status, _, err := post("take", "text", `"a little"`)
		took := time.Since(began)
		assert.NoError(t, err)
		assert.Equal(t, http.StatusOK, status)
		all.Wait()
		peak := peakOf(t, cmd.Process.Pid)
		t.Log(flood.tool, flood.argument, got, "a small request took", took, "peak", peak>>10, "MiB")
		assert.Positive(t, got[http.StatusOK])
		assert.Equal(t, strangers, got[http.StatusOK]+got[http.StatusServiceUnavailable])
		require.Less(t, peak, most, "kB")
	}
}

// peakOf is the most that a process has had in memory, in kB.
func peakOf(t *testing.T, pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := bytes.Cut(status, []byte("VmHWM:"))
	require.True(t, ok)
	n, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	require.NoError(t, err)
	return n
}
