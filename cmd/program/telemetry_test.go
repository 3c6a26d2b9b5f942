package program

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

// Prometheus reads metrics at an address of its own, of this machine alone, and a collector gets traces, also those of the
// last request before the server ends.
func TestServeTells(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var traces []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/v1/traces" {
			traces = append(traces, body...)
		}
	}))
	defer collector.Close()
	h := newHome(t)
	h.env = append(h.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	_, port, err := net.SplitHostPort(porttest.Reserve(t))
	require.NoError(t, err)
	url, cmd := h.serve("--metrics", ":"+port)
	h.ok("call", "--server", url, "--answers", h.file("answers.json", bothAnswers), "complex_tool")
	response, err := http.Get("http://127.0.0.1:" + port + "/metrics")
	require.NoError(t, err)
	metrics, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Regexp(t, `(?m)^mcpsaga_turns_total\{.*mcpsaga_outcome="done".*\} 1$`, string(metrics))
	assert.Regexp(t, `(?m)^target_info\{.*service_name="saga".*\} 1$`, string(metrics))
	for _, address := range listeners(t, cmd.Process.Pid) {
		assert.True(t, address.Addr().IsLoopback(), address)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_, err = cmd.Process.Wait()
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	assert.Contains(t, string(traces), "mcpsaga.turn complex_tool")
}

// What is asked for and is not there is said at the start.
func TestServeTellsWhatItCannotTell(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, stderr, code := h.run("serve", "--addr", "127.0.0.1:0", "--metrics", taken.Addr().String())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "--metrics")
	h.env = append(h.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	_, stderr, code = h.run("serve", "--addr", "127.0.0.1:0")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "http/protobuf")
}

func TestMetricsAddress(t *testing.T) {
	for flag, want := range map[string]string{"9464": "127.0.0.1:9464", ":9464": "127.0.0.1:9464", "0.0.0.0:9464": "0.0.0.0:9464", "[::]:1": "[::]:1", "": "localhost:9464"} {
		assert.Equal(t, want, metricsAddress(flag), flag)
	}
}
