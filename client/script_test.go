package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What the server of the proposal's transcript answers.
const (
	askTarget = `{"state":"suspended","sagaToken":"v1","steps":[{"type":"elicitation","stepId":"step-elicitation-A","params":{` +
		`"message":"Please provide the deployment target:","requestedSchema":{"type":"object","properties":{"target":{"type":"string"}},"required":["target"]}}}]}`
	askModel = `{"state":"suspended","sagaToken":"v2","steps":[{"type":"sampling","stepId":"step-sampling-B","params":{` +
		`"messages":[{"role":"user","content":{"type":"text","text":"Is deploying to 'production' safe right now?"}}],"maxTokens":100}}]}`
	deployed = `{"content":[{"type":"text","text":"Deployment to production initiated successfully based on confirmation."}]}`
)

// asked is a request as the scripted server got it.
type asked struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// reply is what the scripted server does with one request.
type reply func(w http.ResponseWriter, r asked)

// script is an HTTP server that answers each request with the next reply and
// keeps the requests.
type script struct {
	*httptest.Server
	t        *testing.T
	through  http.RoundTripper // nil is over the network
	mu       sync.Mutex
	replies  []reply
	requests []asked
	looks    int // requests for the list of tools after the last reply
}

func play(t *testing.T, replies ...reply) *script {
	t.Helper()
	s := &script{t: t, replies: replies}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// playAtOnce is play in virtual time.
func playAtOnce(t *testing.T, replies ...reply) *script {
	t.Helper()
	s := &script{t: t, replies: replies}
	s.Server = new(httptest.Server)
	s.URL, s.through = memoryhttp.Serve(t, s)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if !assert.NoError(s.t, err) {
		return
	}
	var request asked
	assert.NoError(s.t, json.Unmarshal(body, &request))
	s.mu.Lock()
	if len(s.replies) == 0 && request.Method == "tools/list" {
		// Who has lost a first call looks whether it may be repeated.
		s.looks++
		s.mu.Unlock()
		result(`{"tools":[]}`)(w, request)
		return
	}
	s.requests = append(s.requests, request)
	var next reply
	if len(s.replies) > 0 {
		next, s.replies = s.replies[0], s.replies[1:]
	}
	s.mu.Unlock()
	if !assert.NotNil(s.t, next, "a request that is not in the script: %s", body) {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	next(w, request)
}

// got returns the requests so far.
func (s *script) got() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// then adds replies to the script.
func (s *script) then(replies ...reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies, replies...)
}

// methods returns the methods of the requests so far.
func (s *script) methods() []string {
	var methods []string
	for _, r := range s.got() {
		methods = append(methods, r.Method)
	}
	return methods
}

func (s *script) client(t *testing.T) *client.Client {
	t.Helper()
	c := client.New(&client.HTTP{URL: s.URL, RoundTripper: s.through}, client.Options{Protocol: "saga", RetryFor: 5 * time.Second, RetryPause: time.Millisecond})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// result answers with a result.
func result(raw string) reply {
	return func(w http.ResponseWriter, r asked) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, raw)
	}
}

// body answers with a status and whatever else.
func body(status int, contentType, raw string) reply {
	return func(w http.ResponseWriter, _ asked) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, raw)
	}
}

// refuse answers with a JSON-RPC error.
func refuse(code int, message string) reply {
	return func(w http.ResponseWriter, r asked) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":{"k":1}}}`, r.ID, code, message)
	}
}

// cut loses the connection without an answer.
func cut(w http.ResponseWriter, _ asked) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// people answers as in the proposal and counts how often each is asked.
type people struct{ elicited, sampled int }

func (p *people) handlers() client.Handlers {
	return client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			p.elicited++
			return client.Accept(map[string]any{"target": "production"}), nil
		},
		Sample: func(context.Context, *client.Request) (*steps.SampleResult, error) {
			p.sampled++
			return client.Reply("client-side-llm-v2", "Yes, all systems are green."), nil
		},
	}
}
