package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// asyncTools is a client that knows asynchronous tools, and can be asked everything.
const asyncTools = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{},"experimental":{"asyncTools":{}}}`

// byUser has requests come from a user.
func byUser(user string) func(*legacyClient) {
	return func(c *legacyClient) { c.header.Set("User", user) }
}

// operationResult is a CallToolResult of an asynchronous call.
type operationResult struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Operation struct {
		Token         *string  `json:"token"`
		KeepAlive     *float64 `json:"keepAlive"`
		PollFrequency *float64 `json:"pollFrequency"`
		Status        string   `json:"status"`
	} `json:"operation"`
	ResultType string `json:"resultType"`
}

type operationStatus struct {
	Status        string          `json:"status"`
	Error         *string         `json:"error"`
	InputRequests json.RawMessage `json:"inputRequests"`
	ResultType    string          `json:"resultType"`
}

// operation is the message that calls a tool asynchronously.
func operation(id int, name, args, operation string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"operation":%s}}`, id, name, args, operation)
}

func asyncMessage(id int, method, token string) string {
	t, _ := json.Marshal(token)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/async/%s","params":{"token":%s}}`, id, method, t)
}

func decoded[T any](t testing.TB, raw string) (v T) {
	t.Helper()
	m := parseLegacy(t, raw)
	require.Nil(t, m.Error, raw)
	require.NoError(t, json.Unmarshal(m.Result, &v), raw)
	return v
}

// begin calls a tool asynchronously.
func (c *legacyClient) begin(id int, name, args, token string) operationResult {
	c.t.Helper()
	return decoded[operationResult](c.t, c.ask(operation(id, name, args, fmt.Sprintf(`{"token":%q}`, token))))
}

func (c *legacyClient) status(token string) operationStatus {
	c.t.Helper()
	return decoded[operationStatus](c.t, c.ask(asyncMessage(90, "status", token)))
}

// reaches polls until the operation has a status.
func (c *legacyClient) reaches(token, status string) (last operationStatus) {
	c.t.Helper()
	until(c.t, func() bool {
		last = c.status(token)
		return last.Status == status
	})
	return last
}

func TestOperationRunsToItsEnd(t *testing.T) {
	r := newTaskRig(t)
	c := r.connect("2025-06-18", asyncTools, byUser("ann"))
	begun := c.begin(1, "nap", `{"millis":200}`, "t")
	assert.Contains(t, []string{"submitted", "working"}, begun.Operation.Status)
	assert.EqualValues(t, 3600, *begun.Operation.KeepAlive)
	assert.EqualValues(t, 0.25, *begun.Operation.PollFrequency)
	assert.NotEmpty(t, begun.Content)
	code, text := c.refused(asyncMessage(2, "result", "t"))
	assert.Equal(t, -32602, code)
	assert.Contains(t, text, "its status is ")
	c.reaches("t", "completed")
	for range 2 {
		assert.Equal(t, `{"jsonrpc":"2.0","id":3,"result":{"result":{"content":[{"type":"text","text":"awake"}]}}}`, c.ask(asyncMessage(3, "result", "t")))
	}
}

func TestOperationIsCancelledByItsRequest(t *testing.T) {
	r := newTaskRig(t)
	c := r.connect("2025-11-25", asyncTools, byUser("ann"))
	c.begin(1, "nap", `{"millis":60000}`, "t")
	c.begin(2, "nap", `{"millis":60000}`, "other")
	resp := c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	require.Equal(t, http.StatusAccepted, resp.StatusCode)
	assert.Equal(t, "canceled", c.status("t").Status)
	time.Sleep(50 * time.Millisecond)
	assert.Equal(t, "canceled", c.status("t").Status)
	assert.NotEqual(t, "canceled", c.status("other").Status)
	code, _ := c.refused(asyncMessage(3, "result", "t"))
	assert.Equal(t, -32602, code)
}

// newAsyncRig has tools besides whose results are kept for a short while.
func newAsyncRig(t *testing.T, change ...func(*server.Options)) *rig {
	t.Helper()
	brief := func(name string, keep, ttl time.Duration) saga.Definition {
		return saga.Flow[struct{}, string]{
			Info: saga.Info{Name: name, Tasks: saga.Tasks{Mode: saga.TasksOptional, Keep: keep, TTL: ttl}},
			Run:  func(*saga.Run, struct{}) (string, error) { return "done", nil },
		}
	}
	stubborn := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "stubborn", Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			<-r.Done()
			time.Sleep(300 * time.Millisecond)
			return "done all the same", nil
		},
	}
	return newTaskRig(t, append([]func(*server.Options){func(o *server.Options) {
		o.Tools = append(o.Tools, brief("brief", 50*time.Millisecond, 400*time.Millisecond), brief("hour", time.Hour, 2*time.Hour), inParts, stubborn)
	}}, change...)...)
}

// tools are the entries of tools/list by name.
func (c *legacyClient) tools() map[string]map[string]any {
	c.t.Helper()
	list := decoded[struct{ Tools []map[string]any }](c.t, c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	byName := make(map[string]map[string]any)
	for _, tool := range list.Tools {
		byName[tool["name"].(string)] = tool
	}
	return byName
}

// Who knows asynchronous tools sees which they are; who does not sees no such thing, nor the
// tools that cannot be called otherwise.
func TestInvocationMode(t *testing.T) {
	r := newAsyncRig(t)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		knows := r.connect(version, asyncTools, byUser("ann")).tools()
		assert.Equal(t, "sync", knows["plain"]["invocationMode"], version)
		assert.Equal(t, "async", knows["nap"]["invocationMode"], "both, and so as if asynchronous only")
		assert.Equal(t, "async", knows["must"]["invocationMode"], version)

		c := r.connect(version, everything, byUser("ann"))
		tools := c.tools()
		for name, tool := range tools {
			assert.NotContains(t, tool, "invocationMode", name)
		}
		assert.Contains(t, tools, "plain")
		assert.Contains(t, tools, "nap", "it can be called in the old way")
		if version == "2025-11-25" {
			assert.Contains(t, tools, "must", "the revision has tasks of its own")
			continue
		}
		assert.NotContains(t, tools, "must", version)
		code, text := c.refused(toolCall(2, "must", `{}`))
		assert.Equal(t, -32600, code, version)
		assert.Contains(t, text, "experimental capability asyncTools")
		said, failed := resultText(t, c.ask(toolCall(3, "nap", `{"millis":1}`)))
		assert.Equal(t, "awake", said)
		assert.False(t, failed)
	}
	list := func(capabilities object) (string, string) {
		m := r.send(modernRequest("tools/list", nil).with(capabilities))
		return m.raw, m.result(t).ResultType
	}
	for name, c := range map[string]object{"nothing": {}, "other experiments": {"experimental": object{"other": object{}}}, "no object": {"experimental": object{"asyncTools": true}}} {
		said, _ := list(c)
		assert.NotContains(t, said, "invocationMode", name)
		assert.NotContains(t, said, `"must"`, name)
	}
	said, _ := list(withTasks)
	assert.NotContains(t, said, "invocationMode")
	assert.Contains(t, said, `"must"`, "it can be called as a task")
	assert.Contains(t, said, `"cacheScope":"private"`, "others get another list")
	said, kind := list(object{"experimental": object{"asyncTools": object{}}})
	assert.Contains(t, said, `"invocationMode":"async"`)
	assert.Contains(t, said, `"must"`)
	assert.Contains(t, said, `"cacheScope":"private"`, "it depends on what the client has said")
	assert.Equal(t, "complete", kind)
}

// resultText is the text of the CallToolResult in a response.
func resultText(t testing.TB, response string) (string, bool) {
	t.Helper()
	return text(t, parseLegacy(t, response).Result)
}

func TestWithoutTasksThereAreNoOperations(t *testing.T) {
	r := newTaskRig(t, func(o *server.Options) { o.Ledger, o.Tools = nil, o.Tools[:2] })
	c := r.connect("2025-06-18", asyncTools, byUser("ann"))
	assert.NotContains(t, c.tools()["nap"], "invocationMode")
	code, _ := c.refused(asyncMessage(1, "status", "t"))
	assert.Equal(t, -32601, code)
	said, _ := resultText(t, c.ask(operation(2, "plain", `{}`, `{"token":"t"}`)))
	assert.Equal(t, "done", said, "operation means nothing")
}

func TestOperationTokens(t *testing.T) {
	r := newAsyncRig(t)
	ann := r.connect("2025-06-18", asyncTools, byUser("ann"))
	ann.begin(1, "nap", `{"millis":1}`, "t")
	refused := func(c *legacyClient, message string) string {
		t.Helper()
		code, text := c.refused(message)
		assert.Equal(t, -32602, code, message)
		return text
	}
	used := refused(ann, operation(2, "both", `{}`, `{"token":"t"}`))
	assert.Contains(t, used, "begun before")
	refused(ann, operation(2, "nap", `{"millis":1}`, `{"token":"t"}`)) // the same call is another operation
	ann.reaches("t", "completed")
	assert.Equal(t, used, refused(ann, operation(3, "nap", `{}`, `{"token":"t"}`)), "also after its end")

	// It is the principal's, in any session, and of nobody else.
	bob := r.connect("2025-06-18", asyncTools, byUser("bob"))
	notFound := refused(bob, asyncMessage(1, "status", "t"))
	assert.Equal(t, "Failed to retrieve operation: Operation not found", notFound)
	assert.Equal(t, notFound, refused(bob, asyncMessage(1, "result", "t")))
	assert.Equal(t, notFound, refused(ann, asyncMessage(1, "status", "unknown")))
	bob.begin(1, "fails", `{}`, "t")
	bob.reaches("t", "completed")
	again := r.connect("2025-11-25", asyncTools, byUser("ann"))
	assert.Equal(t, "completed", again.status("t").Status)

	// What is no token.
	for _, bad := range []string{`{"token":""}`, `{"token":7}`, `{"token":null}`, `{"token":["t"]}`, `[]`, `"t"`, `true`, `{"token":"` + strings.Repeat("x", 1025) + `"}`} {
		refused(ann, operation(4, "nap", `{}`, bad))
	}
	for _, bad := range []string{`{}`, `{"token":""}`, `{"token":7}`, `{"token":null}`, `{"token":"` + strings.Repeat("x", 1025) + `"}`} {
		for _, method := range []string{"status", "result"} {
			refused(ann, `{"jsonrpc":"2.0","id":5,"method":"tools/async/`+method+`","params":`+bad+`}`)
		}
	}
	refused(ann, operation(6, "plain", `{}`, `{"token":"new"}`))
	refused(ann, operation(6, "unknown", `{}`, `{"token":"new"}`))
	refused(ann, operation(6, "nap", `[]`, `{"token":"new"}`))
	ann.begin(6, "nap", `{"millis":"x"}`, "new")
	ann.reaches("new", "completed")
	assert.Contains(t, ann.ask(asyncMessage(6, "result", "new")), "The arguments do not fit")
	// Whatever is in a token, it is one.
	for i, odd := range []string{" ", "../../x", "\x00", "t\n", "\u202e", `"}`, strings.Repeat("x", 1024), "task:" + "t", "𝕋"} {
		token, _ := json.Marshal(odd)
		ann.ask(operation(10+i, "hour", `{}`, `{"token":`+string(token)+`}`))
		assert.NotEmpty(t, ann.status(odd).Status)
	}
	assert.NotContains(t, r.log.take(), "ERROR")
}

// For a call without a token the server makes one, or takes the idempotency key.
func TestOperationWithoutToken(t *testing.T) {
	r := newAsyncRig(t)
	c := r.connect("2025-06-18", asyncTools, byUser("ann"))
	one := decoded[operationResult](t, c.ask(operation(1, "nap", `{"millis":1}`, `{"keepAlive":3600}`)))
	two := decoded[operationResult](t, c.ask(operation(2, "nap", `{"millis":1}`, `{}`)))
	require.NotNil(t, one.Operation.Token)
	assert.GreaterOrEqual(t, len(*one.Operation.Token), 22)
	assert.NotEqual(t, *one.Operation.Token, *two.Operation.Token)
	c.reaches(*one.Operation.Token, "completed")
	assert.Nil(t, c.begin(3, "nap", `{}`, "own").Operation.Token)

	keyed := func(id int, args string) string {
		return c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"nap","arguments":%s,"operation":{},"_meta":{"io.github.mcpsaga/idempotencyKey":"key"}}}`, id, args))
	}
	first := decoded[operationResult](t, keyed(4, `{"millis":1}`))
	assert.Equal(t, "key", *first.Operation.Token)
	assert.Equal(t, "key", *decoded[operationResult](t, keyed(5, `{ "millis": 1 }`)).Operation.Token)
	assert.Equal(t, -32602, parseLegacy(t, keyed(6, `{"millis":2}`)).Error.Code)
}

func TestOperationKeepAlive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := newAsyncRig(t)
		c := r.connect("2025-06-18", asyncTools, byUser("ann"))
		for i, one := range []struct {
			given string
			want  float64
		}{{"", 3600}, {`,"keepAlive":60`, 60}, {`,"keepAlive":1.5`, 1.5}, {`,"keepAlive":0`, 0}, {`,"keepAlive":null`, 7200}, {`,"keepAlive":7000`, 7000}, {`,"keepAlive":1e300`, 7200}} {
			begun := decoded[operationResult](t, c.ask(operation(i, "hour", `{}`, fmt.Sprintf(`{"token":"%d"%s}`, i, one.given))))
			require.NotNil(t, begun.Operation.KeepAlive)
			assert.Equal(t, one.want, *begun.Operation.KeepAlive, one.given)
		}
		for _, bad := range []string{`-1`, `"60"`, `true`, `{}`, `-1e300`} {
			code, _ := c.refused(operation(9, "hour", `{}`, `{"token":"bad","keepAlive":`+bad+`}`))
			assert.Equal(t, -32602, code, bad)
		}
		// When it has passed the operation has failed, and at last it is forgotten.
		c.begin(20, "brief", `{}`, "t")
		last := c.reaches("t", "failed")
		require.NotNil(t, last.Error)
		assert.Equal(t, "Operation has expired", *last.Error)
		code, text := c.refused(asyncMessage(21, "result", "t"))
		assert.Equal(t, -32602, code)
		assert.Equal(t, "Failed to retrieve operation: Operation has expired", text)
		until(t, func() bool {
			m := parseLegacy(t, c.ask(asyncMessage(22, "status", "t")))
			return m.Error != nil && m.Error.Code == -32602 && m.Error.Message == "Failed to retrieve operation: Operation not found"
		})
	})
}

// A result is kept by the ledger's clock, whatever that of the server is.
func TestOperationsExpireByTheLedgersClock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := newAsyncRig(t, func(o *server.Options) { o.Now = func() time.Time { return time.Now().Add(90 * time.Minute) } })
		c := r.connect("2025-06-18", asyncTools, byUser("ann"))
		c.begin(1, "hour", `{}`, "t")
		c.reaches("t", "completed")
	})
}

// isError is a result; failed is what has none.
func TestOperationEnds(t *testing.T) {
	r := newAsyncRig(t)
	c := r.connect("2025-06-18", asyncTools, byUser("ann"))
	c.begin(1, "fails", `{}`, "error")
	c.reaches("error", "completed")
	assert.Equal(t, `{"jsonrpc":"2.0","id":2,"result":{"result":{"content":[{"type":"text","text":"it went wrong"}],"isError":true}}}`, c.ask(asyncMessage(2, "result", "error")))
	c.begin(3, "breaks", `{}`, "panic")
	last := c.reaches("panic", "failed")
	assert.Equal(t, "internal error", *last.Error)
	code, text := c.refused(asyncMessage(4, "result", "panic"))
	assert.Equal(t, -32602, code)
	assert.Contains(t, text, "it has failed")
	c.begin(5, "parts", `{}`, "parts")
	c.reaches("parts", "completed")
	got := decoded[struct{ Result json.RawMessage }](t, c.ask(asyncMessage(6, "result", "parts")))
	said, _ := resultText(t, `{"result":`+string(got.Result)+`}`)
	assert.Equal(t, "one\ntwo\nthree", said)
}

// Whatever the tool does meanwhile, and however it ends.
func TestOperationIsCanceledAtOnce(t *testing.T) {
	t.Parallel()
	r := newAsyncRig(t)
	c := r.connect("2025-11-25", asyncTools, byUser("ann"))
	c.begin(1, "stubborn", `{}`, "t")
	c.reaches("t", "working")
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	for range 12 {
		assert.Equal(t, "canceled", c.status("t").Status)
		time.Sleep(50 * time.Millisecond)
	}
}
