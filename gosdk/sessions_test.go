package gosdk_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A client hangs up in the middle of a question.
func TestHangingUpUndoes(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	w := h.wire()
	w.greet(legacy, forms)
	w.begin("tools/call", object{"name": "book"})
	require.Equal(t, "elicitation/create", w.read().Get("method").String())
	rooms.requireHeld(t)
	w.hangUp() // returns when the request has ended
	held, _ := rooms.count()
	assert.Zero(t, held)
	assert.NotContains(t, h.log.String(), "level=ERROR", "clients may hang up")
}

// stubborn goes on without a model's answer, and books a room then.
func stubborn(rooms *rooms) saga.Definition {
	opinion := &steps.Sample{ID: "opinion", Request: steps.SampleRequest{MaxTokens: 9, Messages: []steps.SampleMessage{steps.UserText("Well?")}}}
	room := &saga.Effect[string, bool]{
		Name: "room",
		Do:   func(_ context.Context, k saga.Key, _ string) (bool, error) { rooms.hold(k); return true, nil },
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error { rooms.release(p.Key); return nil },
	}
	return saga.Machine[none, none]{
		Info:  saga.Info{Name: "stubborn", Asks: []steps.Question{opinion}, Effects: []saga.Declared{room}},
		Start: func(t *saga.Turn[none, none]) (saga.Next, error) { return t.Ask("go-on", opinion) },
		Steps: saga.Steps[none, none]{"go-on": func(t *saga.Turn[none, none]) (saga.Next, error) {
			a, _ := t.StepAnswer("opinion")
			if _, err := saga.Do(t, room, "7"); err != nil {
				return nil, err
			}
			return t.Textf("%v", a.Error)
		}},
	}
}

// A connection that breaks is not an answer: a tool that goes on without one must
// not go on for nobody. An answer that cannot be read is one.
func TestABrokenConnectionIsNoAnswer(t *testing.T) {
	t.Parallel()
	booked := new(rooms)
	h := mount(t, gosdk.Options{}, stubborn(booked))
	w := h.wire()
	w.greet(legacy, object{"sampling": object{}})
	for range 300 { // so that there is a moment between the end of the first question and of the last request
		w.begin("tools/call", object{"name": "stubborn"})
	}
	for range 300 {
		require.Equal(t, "sampling/createMessage", w.read().Get("method").String())
	}
	w.hangUp()
	_, ever := booked.count()
	require.Zero(t, ever)
	for _, unfit := range []string{`{}`, `"text"`, `{"role":"assistant","model":"m","content":[{"type":"dance"}]}`} {
		h := mount(t, gosdk.Options{}, stubborn(new(rooms)))
		w := h.wire()
		w.greet(legacy, object{"sampling": object{}})
		w.begin("tools/call", object{"name": "stubborn"})
		w.answer(w.read(), unfit)
		assert.Contains(t, w.read().Get("result.content.0.text").String(), "-32602", unfit)
	}
}

func TestClientErrorsAreAnswers(t *testing.T) {
	h := mount(t, gosdk.Options{}, stubborn(new(rooms)))
	w := h.wire()
	w.greet(legacy, object{"sampling": object{}})
	w.begin("tools/call", object{"name": "stubborn"})
	w.send(`{"jsonrpc":"2.0","id":` + w.read().Get("id").Raw + `,"error":{"code":-1,"message":"no model today"}}`)
	assert.Contains(t, w.read().Get("result.content.0.text").String(), "no model today")
	w.begin("tools/call", object{"name": "stubborn"}) // the SDK has this code for what it could not deliver
	w.send(`{"jsonrpc":"2.0","id":` + w.read().Get("id").Raw + `,"error":{"code":-32005,"message":"try it tomorrow"}}`)
	assert.Contains(t, w.read().Get("result.content.0.text").String(), "try it tomorrow")
}

// The end of a session is not an answer: a tool that goes on without one must not go
// on for nobody.
func TestEndOfSessionIsNoAnswer(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, stubborn(rooms))
	s := newSession(t, h.serve(), "", object{"sampling": object{}})
	next := s.stream(message(1, "tools/call", object{"name": "stubborn"}))
	require.Equal(t, "sampling/createMessage", next().Get("method").String())
	status, body := s.do(http.MethodDelete, "")
	require.Equal(t, 204, status, body)
	h.shutDown() // the call has ended
	_, ever := rooms.count()
	assert.Zero(t, ever)
}

// An older client takes back its request.
func TestCancelledRequestUndoes(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	w := h.wire()
	w.greet(legacy, forms)
	id := w.begin("tools/call", object{"name": "book"})
	question := w.read()
	rooms.requireHeld(t)
	w.send(message(nil, "notifications/cancelled", object{"requestId": id}))
	rooms.requireReleased(t)
	told, failed := false, false
	for range 2 { // in any order
		switch r := w.read(); {
		case r.Get("method").String() == "notifications/cancelled":
			told = true
			assert.Equal(t, question.Get("id").Raw, r.Get("params.requestId").Raw)
		case r.Get("id").Int() == int64(id):
			failed = true
			assert.True(t, r.Get("error").Exists(), r.Raw)
		}
	}
	assert.True(t, told, "the user is not to be asked any more")
	assert.True(t, failed)
}

// A call that its client takes back is no alarm, also if it could have been a task.
func TestCancelledCallThatMayBeATaskIsNoAlarm(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	rooms := new(rooms)
	tool := rooms.book().(saga.Flow[none, string])
	tool.Tasks.Mode = saga.TasksOptional
	h := mount(t, gosdk.Options{Ledger: store}, tool)
	w := h.wire()
	w.greet(legacy, forms)
	id := w.begin("tools/call", object{"name": "book"})
	w.read()
	rooms.requireHeld(t)
	w.send(message(nil, "notifications/cancelled", object{"requestId": id}))
	rooms.requireReleased(t)
	h.shutDown()
	assert.Contains(t, h.log.String(), "request cancelled")
	assert.NotContains(t, h.log.String(), "ERROR")
}

// The SDK's client takes back its call, as its context has ended.
func TestCancelledCallOfTheSDKsClientUndoes(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	asked := make(chan struct{})
	cs := h.connect(legacy, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "book"})
	require.ErrorIs(t, err, context.Canceled)
	rooms.requireReleased(t)
}

// Nobody answers for longer than the token is good for.
func TestUnansweredQuestionUndoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rooms := new(rooms)
		h := mount(t, gosdk.Options{TokenTTL: 30 * time.Second}, rooms.book())
		w := h.wire()
		w.greet(legacy, forms)
		id := w.begin("tools/call", object{"name": "book"})
		w.read()
		rooms.requireHeld(t)
		assert.True(t, w.result(id).Get("result.isError").Bool())
		rooms.requireReleased(t)
	})
}

// Shutdown lets those go who wait for an answer, so that sessions can end, and waits
// until they have.
func TestShutdownUndoes(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book(), talk(1))
	w := h.wire()
	w.greet(legacy, forms)
	id := w.begin("tools/call", object{"name": "book"})
	w.read()
	rooms.requireHeld(t)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.mounted.Shutdown(stopped); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	h.shutDown()
	held, ever := rooms.count()
	require.Equal(t, []int{0, 1}, []int{held, ever}, "it is undone by now")
	assert.Contains(t, w.result(id).Get("error.message").String(), "call again")
	id = w.begin("tools/call", object{"name": "talk"})
	assert.Contains(t, w.result(id).Get("error.message").String(), "call again", "nor is anybody asked from now on")
}

// session is a client of 2025-11-25 over HTTP, by hand.
type session struct {
	t       testing.TB
	url, id string
	token   string
}

func newSession(t testing.TB, url, token string, capabilities object) *session {
	t.Helper()
	s := &session{t: t, url: url, token: token}
	status, header, body := post(t, httpClient, url, message(0, "initialize", object{
		"protocolVersion": legacy, "capabilities": capabilities, "clientInfo": object{"name": "c", "version": "1"},
	}), "Authorization", "Bearer "+token)
	require.Equal(t, 200, status, body)
	s.id = header.Get("Mcp-Session-Id")
	require.NotEmpty(t, s.id)
	status, body = s.do(http.MethodPost, message(nil, "notifications/initialized", nil))
	require.Equal(t, 202, status, body)
	return s
}

func (s *session) headers() []string {
	return []string{"Mcp-Session-Id", s.id, "MCP-Protocol-Version", legacy, "Authorization", "Bearer " + s.token}
}

func (s *session) do(method, body string, more ...string) (int, string) {
	s.t.Helper()
	status, _, got := do(s.t, httpClient, method, s.url, body, append(s.headers(), more...)...)
	return status, got
}

func (s *session) request(body string) *http.Request {
	r, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(s.headers()); i += 2 {
		r.Header.Set(s.headers()[i], s.headers()[i+1])
	}
	return r
}

// stream sends a request and returns what comes, message by message.
func (s *session) stream(body string) (next func() jsontest.Value) {
	s.t.Helper()
	w, err := httpClient.Do(s.request(body))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { w.Body.Close() })
	events := bufio.NewReader(w.Body)
	return func() jsontest.Value {
		s.t.Helper()
		for {
			line, err := events.ReadString('\n')
			if err == io.EOF {
				return jsontest.Value{}
			}
			require.NoError(s.t, err)
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				return jsontest.Parse(data)
			}
		}
	}
}

// A client ends its session in the middle of a question, over HTTP. The SDK by
// itself waits for the answer, and the client for the SDK.
func TestEndOfSessionUndoes(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	url := h.serve()
	s, other := newSession(t, url, "", forms), newSession(t, url, "", forms)
	next := s.stream(message(1, "tools/call", object{"name": "book"}))
	require.Equal(t, "elicitation/create", next().Get("method").String())
	status, _ := other.do(http.MethodDelete, "")
	require.Equal(t, 204, status)
	held, _ := rooms.count()
	require.Equal(t, 1, held, "the end of another session means nothing")
	status, body := s.do(http.MethodDelete, "")
	require.Equal(t, 204, status, body)
	rooms.requireReleased(t)
}

// Whoever asks for the answer by another way than a stream asks in vain if there is
// no other way.
func TestUndeliverableQuestionUndoes(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	s := newSession(t, h.serveWith(&mcp.StreamableHTTPOptions{JSONResponse: true}), "", forms)
	status, body := s.do(http.MethodPost, message(1, "tools/call", object{"name": "book"}))
	assert.Equal(t, 200, status)
	assert.Contains(t, last(body).Get("error.message").String(), "session ended", body)
	rooms.requireReleased(t)
}

// With JSON for responses, questions go on the stream that belongs to no request.
func TestJSONResponses(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(2))
	url := h.serveWith(&mcp.StreamableHTTPOptions{JSONResponse: true})
	for _, version := range []string{modern, legacy} {
		r, err := h.connectHTTP(url, version, speaking()).CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
		require.NoError(t, err)
		assert.Equal(t, "w1 w2", text(t, r), version)
	}
}

// An SDK server in its stateless mode has no way to ask older clients.
func TestOlderClientsOfAStatelessServer(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{Questions: server.Questions{NoRelay: true}}, rooms.book())
	url := h.serveHandler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, &mcp.StreamableHTTPOptions{Stateless: true}))
	for _, body := range []string{
		message(1, "tools/call", object{"name": "book"}),
		fmt.Sprintf(`[%s]`, message(1, "tools/call", object{"name": "book"})), // a batch, as in 2025-03-26
	} {
		status, _, got := post(t, httpClient, url, body)
		require.Equal(t, 200, status, got)
		assert.True(t, last(got).Get("result.isError").Bool() || last(got).Get("0.result.isError").Bool(), got)
		held, _ := rooms.count()
		assert.Zero(t, held)
	}
}
