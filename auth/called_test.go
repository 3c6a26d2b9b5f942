package auth_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/saga"
)

type scoped []string

func (s scoped) Identify(*http.Request) (saga.Caller, error) {
	return saga.Caller{Issuer: "test", Subject: "ann", Scopes: s}, nil
}

// What Require cannot tell it leaves to the server, to which every message comes as it was sent.
func TestRequireSeesWhatIsCalled(t *testing.T) {
	o := auth.Options{
		Methods: []auth.Method{scoped{"tools"}}, Tools: map[string][]string{"order": {"orders"}, "list": {"tools:read"}},
		Prompts: map[string][]string{"order": {"tools"}, "write": {"texts"}},
	}
	var got string
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.NoError(t, r.Body.Close())
		got = string(body)
	})
	shown := newGuard(t, o).Require(next)
	o.Hide = true
	hidden := newGuard(t, o).Require(next)
	large := `"` + strings.Repeat("x", 2<<20) + `"`
	for message, status := range map[string]int{
		`{"method":"tools/call","params":{"name":"order"}}`:                                 403,
		`{"method":"tools/callSaga","params":{"arguments":{"name":"list"},"name":"order"}}`: 403,
		`{"method":"prompts/get","params":{"name":"write"}}`:                                403,
		`{"method":"tools/call","params":{"name":"list"}}`:                                  200,
		`{"method":"tools/call","params":{"name":"write"}}`:                                 200,
		`{"method":"prompts/get","params":{"name":"order"}}`:                                200,
		`{"method":"tools/list","params":{"name":"order"}}`:                                 200,
		`{"method":"tools/call","params":[{"name":"order"}]}`:                               200,
		`[{"method":"tools/call","params":{"name":"order"}}]`:                               200,
		`{"method":"tools/call","params":{"x":` + large + `,"name":"order"}}`:               200,
		`{"method":"tools/call","params":{"name":"order"`:                                   200,
		``: 200,
	} {
		for hides, h := range map[bool]http.Handler{false: shown, true: hidden} {
			got = ""
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, resource, strings.NewReader(message)))
			if hides || status == 200 {
				assert.Equal(t, 200, w.Code, "%.100s", message)
				assert.True(t, got == message, "%.100s", message)
				continue
			}
			assert.Equal(t, 403, w.Code, message)
			assert.Contains(t, w.Header().Get("WWW-Authenticate"), `error="insufficient_scope"`)
			assert.Empty(t, got, "the server has seen nothing")
		}
	}
}
