package program

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nobody returns a pipe that nothing reads.
func nobody(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// A call whose result nothing reads is kept, with the way to the result.
func TestResultThatNothingReads(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	answers := h.file("a.json", bothAnswers)
	cmd := h.command("call", "complex_tool", "--server", address, "--answers", answers, "--save", "saved.json")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = nobody(t), &said
	assert.Equal(t, exitFailed, exitOf(t, cmd.Run()))
	assert.Contains(t, said.String(), "the standard output cannot be written")
	assert.Equal(t, done, h.ok("call", "--resume", "saved.json", "--answers", answers))
}

// A call goes on when nothing reads its messages.
func TestMessagesThatNothingReads(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	to, err := url.Parse(strings.TrimSuffix(address, "/mcp"))
	require.NoError(t, err)
	var asked atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asked.Swap(true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.Host = to.Host
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	cmd := h.command("call", "complex_tool", "--server", web.URL, "--answers", h.file("a.json", bothAnswers))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, nobody(t)
	require.NoError(t, cmd.Run())
	assert.Equal(t, done, out.String())
}
