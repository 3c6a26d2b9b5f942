package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/steps"
)

const (
	taskForm = `{"method":"elicitation/create","params":{"message":"Where?","requestedSchema":{"type":"object","properties":{"target":{"type":"string"}},"required":["target"]}}}`
	taskAsk  = `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Safe?"}}],"maxTokens":10}}`
	discover = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
)

// taskServer is a server of MCP 2026-07-28 with one tool, which becomes a task. What
// tasks/get says is a function of how often it has been asked.
type taskServer struct {
	*httptest.Server
	created string
	get     func(n int) string

	mu   sync.Mutex
	got  []asked
	gets int
	// answered are all inputResponses so far.
	answered map[string]json.RawMessage
	headers  []http.Header
}

func task(id, status, more string) string {
	return fmt.Sprintf(`{"resultType":"complete","taskId":%q,"status":%q,"createdAt":"2026-08-01T10:00:00Z","lastUpdatedAt":"2026-08-01T10:00:00Z","ttlMs":60000,"pollIntervalMs":1%s}`, id, status, more)
}

func taskDone(id string) string { return task(id, "completed", `,"result":`+deployed) }

func newTaskServer(t *testing.T, get func(n int) string) *taskServer {
	t.Helper()
	s := &taskServer{get: get, answered: map[string]json.RawMessage{}}
	s.created = strings.Replace(task("t1", "working", ""), `"complete"`, `"task"`, 1)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(t, w, r) }))
	t.Cleanup(s.Close)
	return s
}

func (s *taskServer) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request asked
	if !assert.NoError(t, err) || !assert.NoError(t, json.Unmarshal(body, &request)) {
		return
	}
	var params struct {
		TaskID         string                     `json:"taskId"`
		InputResponses map[string]json.RawMessage `json:"inputResponses"`
		Meta           struct {
			Capabilities struct{ Extensions map[string]any } `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	assert.NoError(t, json.Unmarshal(request.Params, &params))
	s.mu.Lock()
	s.got = append(s.got, request)
	s.headers = append(s.headers, r.Header)
	for key, answer := range params.InputResponses {
		s.answered[key] = answer
	}
	if request.Method == "tasks/get" {
		s.gets++
	}
	n := s.gets
	s.mu.Unlock()
	if strings.HasPrefix(request.Method, "tasks/") {
		assert.Contains(t, params.Meta.Capabilities.Extensions, "io.modelcontextprotocol/tasks")
		assert.Equal(t, params.TaskID, r.Header.Get("Mcp-Name"))
	}
	switch request.Method {
	case "server/discover":
		result(discover)(w, request)
	case "tools/list":
		result(`{"resultType":"complete","tools":[{"name":"deploy","inputSchema":{"type":"object"}}]}`)(w, request)
	case "tools/call":
		result(s.created)(w, request)
	case "tasks/get":
		result(s.get(n))(w, request)
	case "tasks/update", "tasks/cancel":
		result(`{"resultType":"complete"}`)(w, request)
	default:
		refuse(-32601, "no such method")(w, request)
	}
}

// methods counts the requests so far.
func (s *taskServer) methods() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, r := range s.got {
		counts[r.Method]++
	}
	return counts
}

func (s *taskServer) answers() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, _ := json.Marshal(s.answered)
	return string(raw)
}

func (s *taskServer) client(t *testing.T, options client.Options) *client.Client {
	t.Helper()
	options.RetryPause = time.Millisecond
	c := client.New(&client.HTTP{URL: s.URL}, options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// has reports whether a question has been answered.
func (s *taskServer) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered[key] != nil
}

// asking is a task that works, asks a form and a model, asks another form, and ends.
func asking(t *testing.T) *taskServer {
	var s *taskServer
	s = newTaskServer(t, func(n int) string {
		switch {
		case n == 1:
			return task("t1", "working", `,"statusMessage":"counting"`)
		case !s.has("q") && !s.has("m"):
			return task("t1", "input_required", `,"inputRequests":{"q":`+taskForm+`,"m":`+taskAsk+`}`)
		case !s.has("m"):
			return task("t1", "input_required", `,"inputRequests":{"m":`+taskAsk+`}`)
		case !s.has("q"):
			return task("t1", "input_required", `,"inputRequests":{"q":`+taskForm+`}`)
		case !s.has("q~2"):
			return task("t1", "input_required", `,"inputRequests":{"q~2":`+taskForm+`}`)
		}
		return taskDone("t1")
	})
	return s
}

func TestTaskIsDrivenToItsEnd(t *testing.T) {
	t.Parallel()
	s := asking(t)
	var who people
	h := who.handlers()
	var seen []string
	h.OnProgress = func(p client.Progress) { seen = append(seen, p.Task.Status+" "+p.Message) }
	var positions []client.Position
	h.OnPosition = func(_ context.Context, p client.Position) error {
		positions = append(positions, p)
		return nil
	}
	got, err := s.client(t, client.Options{}).Call(t.Context(), "deploy", map[string]any{"a": 1}, h)
	require.NoError(t, err)
	assert.Contains(t, got.Content.Text(), "initiated successfully")
	assert.Equal(t, people{elicited: 2, sampled: 1}, who)
	assert.JSONEq(t, `{"q":{"action":"accept","content":{"target":"production"}},"q~2":{"action":"accept","content":{"target":"production"}},
		"m":{"role":"assistant","content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2","stopReason":"endTurn"}}`, s.answers())
	assert.Equal(t, 3, s.methods()["tasks/update"], "each answer goes out as it comes")
	assert.Equal(t, []string{"working ", "working counting", "input_required ", "completed "}, seen)
	assert.Equal(t, "t1", positions[0].Task)
	assert.Equal(t, "mcp-2026-07-28", positions[0].Dialect)
}

// A task goes on from a position, or from its id alone, in another process: what was
// answered is not asked again, and what may have got lost is sent again.
func TestTaskGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	s := asking(t)
	var who people
	h := who.handlers()
	h.OnPosition = func(_ context.Context, p client.Position) error {
		if len(p.Answers) == 1 {
			return client.ErrPause // before the answer is sent
		}
		return nil
	}
	_, err := s.client(t, client.Options{}).Call(t.Context(), "deploy", nil, h)
	require.ErrorIs(t, err, client.ErrPause)
	position := throughJSON(t, interrupted(t, err))
	assert.Equal(t, "t1", position.Task)
	assert.Equal(t, "{}", s.answers())
	assert.Equal(t, "m", position.Pending()[0].StepID)

	h.OnPosition = nil
	_, err = s.client(t, client.Options{}).Resume(t.Context(), position, h)
	require.NoError(t, err)
	assert.Equal(t, people{elicited: 2, sampled: 1}, who)

	got, err := s.client(t, client.Options{}).Resume(t.Context(), client.Position{Task: "t1"}, client.Handlers{})
	require.NoError(t, err)
	assert.NotEmpty(t, got.Content)
	state, err := s.client(t, client.Options{}).Task(t.Context(), position)
	require.NoError(t, err)
	assert.True(t, state.Ended())
	assert.Equal(t, time.Minute, state.TTL)
	assert.Equal(t, time.Millisecond, state.Poll)
	assert.Equal(t, 2026, state.Created.Year())
}

func TestTasksThatEndOtherwise(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state, says string
		code        int64
	}{
		"failed":        {task("t1", "failed", `,"statusMessage":"out of disk","error":{"code":-32603,"message":"internal error"}`), "the task has failed: out of disk: internal error (code -32603)", -32603},
		"failed, plain": {task("t1", "failed", ""), "the task has failed", 0},
		"cancelled":     {task("t1", "cancelled", `,"statusMessage":"undone"`), "the task was cancelled: undone", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTaskServer(t, func(int) string { return c.state })
			_, err := s.client(t, client.Options{}).Call(t.Context(), "deploy", nil, client.Handlers{})
			var ended *client.TaskError
			require.ErrorAs(t, err, &ended)
			assert.Equal(t, c.says, ended.Error())
			var refused *client.Error
			if assert.Equal(t, c.code != 0, errors.As(err, &refused)); refused != nil {
				assert.Equal(t, c.code, refused.Code)
			}
		})
	}
	// A tool that fails by its own account completes.
	s := newTaskServer(t, func(int) string {
		return task("t1", "completed", `,"result":{"content":[{"type":"text","text":"no"}],"isError":true}`)
	})
	got, err := s.client(t, client.Options{}).Call(t.Context(), "deploy", nil, client.Handlers{})
	require.NoError(t, err)
	assert.True(t, got.IsError)
}

func TestCancelTask(t *testing.T) {
	t.Parallel()
	position := client.Position{Task: "t1"}
	s := newTaskServer(t, func(n int) string {
		if n < 3 {
			return task("t1", "working", "")
		}
		return task("t1", "cancelled", "")
	})
	_, err := s.client(t, client.Options{}).Cancel(t.Context(), position)
	var ended *client.TaskError
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, "cancelled", ended.Task.Status)
	assert.Equal(t, 1, s.methods()["tasks/cancel"])

	late := newTaskServer(t, func(int) string { return taskDone("t1") })
	got, err := late.client(t, client.Options{}).Cancel(t.Context(), position)
	require.NoError(t, err)
	assert.NotEmpty(t, got.Content)

	deaf := newTaskServer(t, func(int) string { return task("t1", "working", "") })
	_, err = deaf.client(t, client.Options{Timeout: 300 * time.Millisecond}).Cancel(t.Context(), position)
	require.ErrorIs(t, err, client.ErrTimeout)
}

// What a hostile server says about tasks is bounded, and refused by name.
func TestHostileTasks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ created, state string }{
		"no id":           {created: `{"resultType":"task","status":"working"}`, state: taskDone("")},
		"a huge id":       {created: `{"resultType":"task","status":"working","taskId":"` + strings.Repeat("x", 5000) + `"}`, state: taskDone(strings.Repeat("x", 5000))},
		"an odd status":   {created: `{"resultType":"task","status":"dreaming","taskId":"t1"}`},
		"another task":    {state: taskDone("t2")},
		"no result":       {state: task("t1", "completed", "")},
		"an odd result":   {state: task("t1", "completed", `,"result":7`)},
		"no task at all":  {state: `[]`},
		"questions twice": {state: task("t1", "input_required", `,"inputRequests":{"a":`+taskForm+`,"a":`+taskForm+`}`)},
		"many questions":  {state: task("t1", "input_required", `,"inputRequests":{`+many(101, `"q%d":{"method":"roots/list"}`)+`}`)},
		"a huge form": {state: task("t1", "input_required", `,"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"`+
			strings.Repeat("x", 300<<10)+`","requestedSchema":{"type":"object"}}}}`)},
		"a number of times": {state: `{"taskId":"t1","status":"working","ttlMs":"soon"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTaskServer(t, func(int) string { return c.state })
			if c.created != "" {
				s.created = c.created
			}
			_, err := s.client(t, client.Options{}).Call(t.Context(), "deploy", nil, client.Handlers{})
			require.ErrorAs(t, err, new(*client.ProtocolError))
		})
	}
	t.Run("questions without end", func(t *testing.T) {
		s := newTaskServer(t, func(n int) string {
			return task("t1", "input_required", fmt.Sprintf(`,"inputRequests":{"q%d":%s}`, n, taskForm))
		})
		var who people
		_, err := s.client(t, client.Options{MaxRounds: 3}).Call(t.Context(), "deploy", nil, who.handlers())
		require.ErrorAs(t, err, new(*client.LimitError))
		assert.Equal(t, 3, who.elicited)
		assert.Len(t, interrupted(t, err).Pending(), 1)
	})
	t.Run("the same question for ever", func(t *testing.T) {
		s := newTaskServer(t, func(n int) string {
			if n > 5 {
				return taskDone("t1")
			}
			return task("t1", "input_required", `,"inputRequests":{"q":`+taskForm+`}`)
		})
		var who people
		_, err := s.client(t, client.Options{}).Call(t.Context(), "deploy", nil, who.handlers())
		require.NoError(t, err)
		assert.Equal(t, 1, who.elicited)
		assert.Equal(t, 1, s.methods()["tasks/update"])
	})
	t.Run("times beyond all measure", func(t *testing.T) {
		s := newTaskServer(t, func(int) string {
			return `{"taskId":"t1","status":"working","ttlMs":1e300,"pollIntervalMs":-1e300,"createdAt":"yesterday"}`
		})
		state, err := s.client(t, client.Options{}).Task(t.Context(), client.Position{Task: "t1"})
		require.NoError(t, err)
		assert.Zero(t, state.Poll)
		assert.Positive(t, state.TTL)
		assert.True(t, state.Created.IsZero())
	})
	t.Run("no pause", func(t *testing.T) {
		s := newTaskServer(t, func(int) string { return `{"taskId":"t1","status":"working","pollIntervalMs":0.001}` })
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer stop()
		_, err := s.client(t, client.Options{}).Call(ctx, "deploy", nil, client.Handlers{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, s.methods()["tasks/get"], 7)
	})
	t.Run("a task of a prompt", func(t *testing.T) {
		s := play(t, result(`{"resultType":"task","taskId":"1","status":"working"}`))
		_, err := s.client(t).GetPrompt(t.Context(), "p", nil, client.Handlers{})
		require.ErrorAs(t, err, new(*client.ProtocolError))
	})
}

// What cannot be answered stops the call, not the task.
func TestTaskIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := newTaskServer(t, func(int) string { return task("t1", "input_required", `,"inputRequests":{"m":`+taskAsk+`}`) })
	_, err := s.client(t, client.Options{}).Call(t.Context(), "deploy", nil, client.Handlers{
		Sample: func(context.Context, *client.Request) (*steps.SampleResult, error) {
			return nil, &client.Error{Code: -1, Message: "the user refused"}
		},
	})
	require.ErrorContains(t, err, "the user refused")
	assert.Equal(t, "t1", interrupted(t, err).Task)
	assert.Zero(t, s.methods()["tasks/update"])
}

func TestPositionsOfTasks(t *testing.T) {
	t.Parallel()
	s := newTaskServer(t, func(int) string { return taskDone("t1") })
	c := s.client(t, client.Options{})
	for _, bad := range []string{
		`{"version":1,"dialect":"saga","tool":"x","task":"t1"}`,
		`{"version":1,"dialect":"mcp-2026-07-28","prompt":"x","task":"t1"}`,
		`{"version":1,"dialect":"mcp-2026-07-28"}`,
	} {
		var p client.Position
		require.NoError(t, json.Unmarshal([]byte(bad), &p))
		_, err := c.Resume(t.Context(), p, client.Handlers{})
		require.ErrorAs(t, err, new(*client.PositionError), bad)
		_, err = c.Task(t.Context(), p)
		require.ErrorAs(t, err, new(*client.PositionError), bad)
	}
}
