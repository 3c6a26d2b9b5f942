package program

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
)

// A call that is resumed is kept up to date where it was saved, so that its client can be killed at any time.
func TestAResumedCallIsKept(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"alone": nil, "saved elsewhere as well": {"--save", "other.json"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			address, _ := h.serve()
			to, err := url.Parse(address)
			require.NoError(t, err)
			var turns atomic.Int64
			last := make(chan bool)
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
			}}
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte("tools/resumeSaga")) && turns.Add(1) == 2 {
					last <- true
					<-r.Context().Done()
					return
				}
				proxy.ServeHTTP(w, r)
			}))
			defer front.Close()
			_, stderr, code := h.run("call", "complex_tool", "--server", front.URL+to.Path, "--save", "saved.json")
			require.Equal(t, exitNeedsAnswer, code, stderr)
			cmd := h.command(append([]string{"call", "--resume", "saved.json", "--answers", h.file("both.json", bothAnswers)}, more...)...)
			require.NoError(t, cmd.Start())
			<-last
			kill(t, cmd)
			for _, file := range append([]string{"saved.json"}, more[min(len(more), 1):]...) {
				saved, err := state.Load(h.dir + "/" + file)
				require.NoError(t, err)
				assert.Equal(t, 2, saved.Position.Round, file)
				assert.Empty(t, saved.Position.Pending(), "what was answered is not asked again")
			}
			assert.Contains(t, h.ok("call", "--resume", "saved.json"), done)
		})
	}
}
