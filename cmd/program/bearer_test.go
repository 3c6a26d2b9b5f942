package program

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that wants an access token gets it with every request, in every protocol, whichever way
// it was given; and who gives none is told how to.
func TestServersThatWantABearer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	to, err := url.Parse(address)
	require.NoError(t, err)
	to.Path = ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Host = to.Host
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	answers := h.file("answers.json", bothAnswers)
	for _, protocol := range []string{"", "saga", "2026-07-28", "2025-11-25"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			call := []string{"call", "complex_tool", "--server", proxy.URL + "/mcp", "--retry-for", "1ms"}
			if protocol != "" {
				call = append(call, "--protocol", protocol)
			}
			if protocol == "2025-11-25" { // questions have no ids there
				call = append(call, "--answers", h.file("old.json", `{"elicitation-1":{"target":"production"},"sampling-1":"Yes."}`))
			} else {
				call = append(call, "--answers", answers)
			}
			for _, with := range [][]string{{"--bearer", "secret"}, {"--header", "Authorization: Bearer secret"}} {
				assert.Contains(t, h.ok(append(call, with...)...), done)
			}
			own := *h
			own.env = append(append([]string{}, h.env...), "SAGA_BEARER=secret")
			assert.Contains(t, own.ok(call...), done)
			for _, with := range [][]string{nil, {"--bearer", "other"}} {
				_, stderr, code := h.run(append(call, with...)...)
				assert.Equal(t, exitServer, code)
				assert.Contains(t, stderr, "SAGA_BEARER")
				assert.Contains(t, stderr, "--bearer")
				assert.NotContains(t, stderr, "other")
			}
		})
	}
}
