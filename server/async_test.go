package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
