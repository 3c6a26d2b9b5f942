package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// flushesInVain has a Flush, as writers of routers have, that cannot do what it says.
type flushesInVain struct{ http.ResponseWriter }

func (flushesInVain) Flush()                        { panic("what it is around cannot flush") }
func (w flushesInVain) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Middleware that counts bytes or notes statuses often wraps the writer in one that can only write.
func TestMiddlewareThatHidesFlush(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	sure := &steps.Form[struct{}]{ID: "sure", Message: "Sure?"}
	ask := saga.Flow[struct{}, string]{Info: saga.Info{Name: "asks", Asks: []steps.Question{sure}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		_, err := saga.Ask(r, sure)
		return "asked", err
	}}
	s, err := server.New(server.Options{
		Keys: newKeys(t), Tools: []saga.Definition{slowTool("reports", true, 10*time.Millisecond), ask},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	inner := s.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(flushesInVain{struct{ http.ResponseWriter }{w}}, r)
	}))
	t.Cleanup(func() { s.Close(); web.Close() })
	r := &rig{t: t, url: web.URL, http: web.Client(), srv: s}
	for range 2 {
		q := callTool("reports", nil)
		q.meta["progressToken"] = "p"
		resp, err := r.client().Do(r.httpRequest(t.Context(), q))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Contains(t, string(body), `"done"`)
	}
	c := r.connect("2025-11-25", `{"elicitation":{}}`)
	resp := c.request(http.MethodGet, "", nil)
	assert.Equal(t, http.StatusNotAcceptable, resp.StatusCode)
	assert.Contains(t, readAll(t, resp), "middleware")
	assert.Contains(t, c.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"reports","_meta":{"progressToken":"p"}}}`), `"done"`)
	assert.Contains(t, c.ask(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"asks"}}`), "cannot be asked")
	web.Close()
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("give it an Unwrap method")), log.String())
}

// Others than the client may end a request's context: then the client still reads.
func TestContextsThatMiddlewareEnds(t *testing.T) {
	t.Parallel()
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{slowTool("slow", false, time.Minute)}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
		"a cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := end(r.Context())
			defer cancel()
			s.Handler().ServeHTTP(w, r.WithContext(ctx))
		}))
		t.Cleanup(web.Close)
		r := &rig{t: t, url: web.URL, http: web.Client(), srv: s}
		status, body := r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"slow"}}`, nil)
		assert.Regexp(t, "send the same request again|the same request may be sent again", body, name)
		if name == "a cancel" { // a deadline may count as the turn's own
			assert.Equal(t, http.StatusServiceUnavailable, status)
			got := r.send(callTool("slow", nil))
			assert.Equal(t, http.StatusServiceUnavailable, got.status)
			assert.Equal(t, "1", got.header.Get("Retry-After"))
			assert.Equal(t, -31503, got.code())
		}
	}
}

// What cannot be done again is never answered as if it could.
func TestContextsThatMiddlewareEndsBehindEffects(t *testing.T) {
	t.Parallel()
	cut := make(chan struct{}, 1)
	good := func(context.Context, saga.Key, string) (string, error) { return "", nil }
	bank := func(ctx context.Context, _ saga.Key, _ string) (string, error) { // it does not answer before the request is cut off
		cut <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}
	cannot := func(context.Context, saga.Performed[string, string]) error { return errors.New("never") }
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{
		cutBehind("pay", &saga.Effect[string, string]{Name: "pay", Irreversible: true, Tries: 1, Do: good}, cut),
		cutBehind("lost", &saga.Effect[string, string]{Name: "transfer", Irreversible: true, Tries: 1, Do: bank}, cut),
		cutBehind("left", &saga.Effect[string, string]{Name: "hold", Tries: 1, Do: good, Undo: cannot}, cut),
	}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() { <-cut; cancel() }()
		s.Handler().ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(web.Close)
	r := &rig{t: t, url: web.URL, http: web.Client(), srv: s}
	for tool, want := range map[string]string{"pay": "is done, which is final", "lost": "do not call it again before you have found out", "left": "not all that it did is undone: hold"} {
		status, body := r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"`+tool+`"}}`, nil)
		assert.Equal(t, http.StatusOK, status, body)
		assert.Contains(t, body, want)
		got := r.send(callTool(tool, nil))
		assert.Contains(t, got.raw, want)
	}
}

// cutBehind waits behind its effect for the end of its request, which it has cut off.
func cutBehind(name string, effect *saga.Effect[string, string], cut chan<- struct{}) saga.Definition {
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: name, Effects: []saga.Declared{effect}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, effect, "it"); err != nil {
				return "", err
			}
			cut <- struct{}{}
			<-r.Done()
			return "", r.Err()
		},
	}
}
