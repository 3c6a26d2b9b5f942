package server_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// rig is a server behind real HTTP, with its log.
type rig struct {
	t    testing.TB
	url  string
	http *http.Client // nil is the default one
	log  *logBuffer
	srv  *server.Server
}

func (r *rig) client() *http.Client { return cmp.Or(r.http, http.DefaultClient) }

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns what was logged since the last call.
func (l *logBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.b.String()
	l.b.Reset()
	return s
}

func newKeys(t testing.TB) *codec.Keyset {
	t.Helper()
	k, err := codec.NewKeyset()
	require.NoError(t, err)
	return k
}

func newRig(t testing.TB, o server.Options, change ...func(*http.Server)) *rig {
	t.Helper()
	r := &rig{t: t, log: new(logBuffer)}
	if o.Keys == nil {
		o.Keys = newKeys(t)
	}
	if o.Tools == nil {
		o.Tools = []saga.Definition{complextool.Tool}
	}
	o.Logger = slog.New(slog.NewJSONHandler(r.log, nil))
	var err error
	r.srv, err = server.New(o)
	require.NoError(t, err)
	r.url, r.http = serveWeb(t, r.srv.Handler(), change...)
	t.Cleanup(r.srv.Close)
	return r
}

// post sends a message as curl would and returns the response's body.
func (r *rig) post(message string) string {
	r.t.Helper()
	status, body := r.do(http.MethodPost, "/mcp", message, nil)
	require.Equal(r.t, http.StatusOK, status, body)
	return body
}

func (r *rig) do(method, path, body string, change func(*http.Request)) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(req)
	}
	resp, err := r.client().Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(b)
}

// transcript reads a recorded exchange: pairs of request and response.
func transcript(t testing.TB) (pairs [][2]string) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/transcripts/saga-proposal.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if request, ok := strings.CutPrefix(line, "→ "); ok {
			pairs = append(pairs, [2]string{request})
		} else if response, ok := strings.CutPrefix(line, "← "); ok {
			pairs[len(pairs)-1][1] = response
		}
	}
	require.Len(t, pairs, 3)
	return pairs
}

type reply struct {
	ID     json.RawMessage `json:"id"`
	Result struct {
		State     string `json:"state"`
		SagaToken string `json:"sagaToken"`
		IsError   bool   `json:"isError"`
		Steps     []struct {
			StepID string `json:"stepId"`
		} `json:"steps"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func parse(t testing.TB, body string) reply {
	t.Helper()
	var r reply
	require.NoError(t, json.Unmarshal([]byte(body), &r), body)
	return r
}

// firstToken starts the proposal's saga and returns its token.
func (r *rig) firstToken() string {
	r.t.Helper()
	got := parse(r.t, r.post(transcript(r.t)[0][0]))
	require.NotEmpty(r.t, got.Result.SagaToken)
	return got.Result.SagaToken
}

// resume sends the proposal's second request with another token.
func (r *rig) resume(token string) string {
	r.t.Helper()
	quoted, err := json.Marshal(token)
	require.NoError(r.t, err)
	return r.post(strings.Replace(transcript(r.t)[1][0], `"TOKEN1"`, string(quoted), 1))
}

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}
