package gosdk_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
)

// Others than the client may end a request's context: then the client still reads.
func TestContextsThatMiddlewareEnds(t *testing.T) {
	t.Parallel()
	h := mount(t, gosdk.Options{}, new(rooms).waiting(func(r *saga.Run) error { <-r.Done(); return context.Cause(r) }))
	url := h.serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	})
	for name, c := range map[string]struct {
		body    string
		headers []string
	}{
		"saga": {message(1, "tools/callSaga", object{"name": "book"}), nil},
		"stateless": {
			message(1, "tools/call", object{"name": "book", "_meta": meta(forms)}),
			[]string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "book"},
		},
	} {
		status, header, body := post(t, httpClient, url, c.body, c.headers...)
		if status != http.StatusOK { // else the error of the call was there in time
			assert.Equal(t, http.StatusGatewayTimeout, status, name)
			assert.Empty(t, header.Get("Retry-After"), name)
			assert.Contains(t, body, "may have been carried out: find out before you send it again", name)
		} else {
			assert.Equal(t, int64(-31503), last(body).Get("error.code").Int(), body)
			assert.Contains(t, body, "send the same request again", name)
		}
	}
}

// What cannot be done again is never answered as if it could.
func TestContextsThatMiddlewareEndsBehindEffects(t *testing.T) {
	t.Parallel()
	paid := make(chan struct{}, 1)
	pay := &saga.Effect[string, string]{Name: "pay", Irreversible: true, Tries: 1, Do: func(context.Context, saga.Key, string) (string, error) {
		return "paid", nil
	}}
	h := mount(t, gosdk.Options{}, saga.Flow[none, string]{
		Info: saga.Info{Name: "pay", Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, pay, "it"); err != nil {
				return "", err
			}
			paid <- struct{}{}
			<-r.Done()
			return "", r.Err()
		},
	})
	url := h.serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go func() { <-paid; cancel() }()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	})
	for range 10 { // either the SDK or the call is first
		status, _, body := post(t, httpClient, url, message(1, "tools/callSaga", object{"name": "pay"}))
		assert.NotContains(t, body, "send the same request again")
		assert.Regexp(t, "is done, which is final|may have been carried out", body, status)
	}
}
