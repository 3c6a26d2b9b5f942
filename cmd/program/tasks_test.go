package program

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

// tasksServer is a server of MCP 2026-07-28 whose tool becomes a task, t-1, which asks
// where to go and ends when it knows.
type tasksServer struct {
	*httptest.Server
	mu        sync.Mutex
	where     string // what was answered
	cancelled bool
	// stays: it does not ask, and works on for ever.
	stays bool
	// loses: what is answered does not arrive.
	loses bool
	// bearers are the credentials of the requests so far.
	bearers map[string]bool
}

func newTasksServer(t *testing.T) *tasksServer {
	t.Helper()
	s := &tasksServer{bearers: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
			Params struct {
				TaskID         string
				InputResponses map[string]struct{ Content struct{ Where string } }
			}
		}
		if !assert.NoError(t, json.NewDecoder(r.Body).Decode(&request)) {
			return
		}
		s.mu.Lock()
		lost := s.loses && request.Method == "tasks/update"
		s.mu.Unlock()
		if lost {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answer := object{"jsonrpc": "2.0", "id": request.ID}
		if result := s.answer(r, request.Method, request.Params.TaskID, request.Params.InputResponses["where"].Content.Where); result != nil {
			answer["result"] = result
		} else {
			answer["error"] = object{"code": -32602, "message": "unknown"}
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	var err error
	_ = s.Listener.Close()
	s.Listener, err = net.Listen("tcp", porttest.Reserve(t)) // which no other test gets once the server is closed
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// sent returns the credentials that were sent since it was called last.
func (s *tasksServer) sent() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.bearers
	s.bearers = map[string]bool{}
	return sent
}

func (s *tasksServer) answer(r *http.Request, method, id, where string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bearers[r.Header.Get("Authorization")] = true
	state := object{"resultType": "complete", "taskId": "t-1", "status": "working", "statusMessage": "on the way", "pollIntervalMs": 1,
		"createdAt": "2026-08-01T10:00:00Z", "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttlMs": int64(86400000 * 365 * 10)}
	switch method {
	case "server/discover":
		return object{"supportedVersions": []string{"2026-07-28"}, "capabilities": object{"extensions": object{"io.modelcontextprotocol/tasks": object{}}}}
	case "tools/list":
		return object{"tools": []object{{"name": "travel", "inputSchema": object{"type": "object"}}}}
	case "tools/call":
		state["resultType"] = "task"
		return state
	}
	if id != "t-1" {
		return nil
	}
	switch method {
	case "tasks/update":
		s.where = where
	case "tasks/cancel":
		s.cancelled = s.where == ""
	case "tasks/get":
		switch {
		case s.cancelled:
			state["status"], state["statusMessage"] = "cancelled", "turned back"
		case s.where != "":
			state["status"], state["result"] = "completed", object{"content": []object{{"type": "text", "text": "Went to " + s.where + "."}}}
		case !s.stays:
			state["status"], state["inputRequests"] = "input_required", object{"where": object{"method": "elicitation/create", "params": object{
				"message": "Where to?", "requestedSchema": object{"type": "object", "properties": object{"where": object{"type": "string"}}}}}}
		}
		return state
	}
	return object{"resultType": "complete"}
}

const toOslo = `{"where":{"where":"Oslo"}}`

func TestTasks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newTasksServer(t)
	name := strings.TrimSpace(h.ok("call", "travel", "--detach", "--server", s.URL))
	file := filepath.Join(h.dir, "state", "saga", "calls", name+".json")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	assert.Regexp(t, name+`  +travel +`+s.URL+`\S* +just now +until \S+ \S+ +asks: Where to\?`, h.ok("tasks"))
	stdout, stderr, code := h.run("tasks", "watch", name)
	assert.Equal(t, exitNeedsAnswer, code)
	assert.Contains(t, stdout, "input required on the way")
	assert.Contains(t, stderr, "where: Where to?\nAnswer with: saga tasks answer "+name)
	_, stderr, code = h.run("tasks", "result", name)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "has not ended: it is input required")
	_, stderr, code = h.run("tasks", "answer", name)
	assert.Equal(t, exitNeedsAnswer, code, stderr)

	_, stderr, code = h.run("tasks", "answer", name, "--answers", h.file("a.json", toOslo))
	require.Zero(t, code, stderr)
	assert.Contains(t, stderr, "sent 1 answer; the task is completed")
	_, stderr, code = h.run("tasks", "answer", name, "--answers", h.file("a.json", toOslo))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "asks nothing")
	assert.Contains(t, h.ok("tasks", "watch", name), "completed")
	assert.Equal(t, "Went to Oslo.\n", h.ok("tasks", "result", name))
	assert.Contains(t, h.ok("tasks", "result", "t-1", "--server", s.URL, "--output", "json"), `"text": "Went to Oslo."`)
	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.ok("tasks", "--output", "json")), &rows))
	require.Len(t, rows, 1)
	assert.Equal(t, "completed", rows[0]["status"])
	assert.Equal(t, "t-1", rows[0]["taskId"])

	stdout, stderr, code = h.run("tasks", "cancel", name)
	require.Zero(t, code, stderr)
	assert.Contains(t, stderr, "too late")
	assert.Equal(t, "Went to Oslo.\n", stdout)
	assert.NoFileExists(t, file)
	_, stderr, _ = h.run("tasks")
	assert.Contains(t, stderr, "None of the saved calls is a task")

	_, stderr, code = h.run("tasks", "result", "t-2", "--server", s.URL)
	assert.Equal(t, exitServer, code)
	assert.Contains(t, stderr, "does not know the task")
}

// An answer may be lost on its way, and is kept. What has become of it is said the next time.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_RETRY_FOR=10ms")
	for name, c := range map[string]struct {
		gave, other bool
		says        string
		code        int
	}{
		"it is sent again":                  {gave: true, says: "sent 1 answer; the task is completed"},
		"somebody else has answered":        {gave: true, other: true, says: "the task asks nothing any more, as it has your answer or another's: it is completed", code: exitFailed},
		"somebody else, before it is given": {other: true, says: "the task asks nothing any more, as another client has answered: it is completed", code: exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTasksServer(t)
			name := strings.TrimSpace(h.ok("call", "travel", "--detach", "--server", s.URL))
			s.mu.Lock()
			s.loses = true
			s.mu.Unlock()
			answer := []string{"tasks", "answer", name, "--answers", h.file(name+".answers", toOslo)}
			if c.gave {
				_, stderr, code := h.run(answer...)
				assert.Equal(t, exitServer, code, stderr)
			} else {
				_, _, code := h.run("tasks", "answer", name)
				assert.Equal(t, exitNeedsAnswer, code)
			}
			s.mu.Lock()
			s.loses = false
			if c.other {
				s.where = "Rome"
			}
			s.mu.Unlock()
			_, stderr, code := h.run(answer...)
			assert.Equal(t, c.code, code)
			assert.Contains(t, stderr, c.says)
		})
	}
}

// A call that has become a task is waited for, and when it is not any more, it says how to
// come back.
func TestCallBecomesATask(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newTasksServer(t)
	_, stderr, code := h.run("call", "travel", "--server", s.URL, "--save", "saved.json")
	assert.Equal(t, exitNeedsAnswer, code)
	for _, want := range []string{"as a task", "saga call --resume saved.json", "saga tasks watch saved.json", "saga tasks cancel saved.json"} {
		assert.Contains(t, stderr, want)
	}
	assert.Equal(t, "Went to Oslo.\n", h.ok("call", "--resume", "saved.json", "--answers", h.file("a.json", toOslo)))
	assert.NoFileExists(t, filepath.Join(h.dir, "saved.json"))

	s = newTasksServer(t)
	_, _, code = h.run("call", "travel", "--server", s.URL, "--save", "saved.json")
	require.Equal(t, exitNeedsAnswer, code)
	_, stderr, code = h.run("cancel", "saved.json")
	require.Zero(t, code, stderr)
	assert.Contains(t, stderr, "the task was cancelled: turned back")
	assert.NoFileExists(t, filepath.Join(h.dir, "saved.json"))
	_, stderr, code = h.run("tasks", "result", "t-1", "--server", s.URL)
	assert.Equal(t, exitServer, code)
	assert.Contains(t, stderr, "cancelled")

	// Another server does not know it.
	s = newTasksServer(t)
	_, _, code = h.run("call", "travel", "--server", s.URL, "--save", "saved.json")
	require.Equal(t, exitNeedsAnswer, code)
	_, stderr, code = h.run("call", "--resume", "saved.json", "--server", hostile(t, nil))
	assert.Equal(t, exitServer, code)
	assert.Contains(t, stderr, "does not know the task")
	assert.Contains(t, stderr, "saga calls rm saved.json")
}

// A task that cannot be saved is not lost: its id is told.
func TestTaskThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newTasksServer(t)
	h.file("state", "") // where a directory is to be
	for _, args := range [][]string{{"--detach"}, {}} {
		_, stderr, code := h.run(append([]string{"call", "travel", "--server", s.URL}, args...)...)
		assert.NotZero(t, code)
		assert.Contains(t, stderr, "could not be saved")
		assert.Regexp(t, `saga tasks watch --server \S+ t-\d`, stderr)
	}
}

// Where a task cannot be asked for, the list says why; and who has mistyped a name is told how it was
// understood.
func TestTasksWithoutTheirServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newTasksServer(t)
	h.ok("call", "travel", "--detach", "--server", s.URL)
	s.Close()
	own := state.Call{Stdio: "./my-server", Position: client.Position{Version: 1, Dialect: "mcp-2026-07-28", Tool: "travel", Task: "t-2"}}
	require.NoError(t, own.Save(filepath.Join(h.dir, "state", "saga", "calls", "own.json")))
	list := h.ok("tasks")
	assert.Regexp(t, s.URL+`\S* +just now +\? +\? cannot reach the server`, list)
	assert.Regexp(t, `own +travel +\./my-server +just now +\? +not asked; name its server with --stdio`, list)

	for _, verb := range []string{"watch", "answer", "result", "cancel"} { // one that was removed at the task's end
		_, stderr, code := h.run("tasks", verb, "20261124-195728-POSU72", "--retry-for", "1ms")
		assert.Equal(t, exitUsage, code, verb)
		assert.Contains(t, stderr, "there is no saved call 20261124-195728-POSU72; saga calls lists")
	}
}

// A server that does not answer is not waited for until the person gives up.
func TestTasksOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hung) })
	h := newHome(t)
	saved := state.Call{URL: s.URL, Position: client.Position{Version: 1, Dialect: "mcp-2026-07-28", Tool: "travel", Task: "t-1"}}
	require.NoError(t, saved.Save(filepath.Join(h.dir, "state", "saga", "calls", "own.json")))
	// With --login the user may have to sign in, so the server has the time of --timeout.
	assert.Contains(t, h.ok("tasks", "--login", "--timeout", "50ms"), "? the server did not answer within 50ms: does it run?")
}

// What opens one server is not told to the others of a list.
func TestListsKeepCredentials(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newTasksServer(t)
	h.ok("call", "travel", "--detach", "--server", s.URL)
	h.env = append(h.env, "SAGA_BEARER=secret")
	s.sent() // by the call
	h.ok("tasks")
	assert.Equal(t, map[string]bool{"": true}, s.sent())
	assert.Contains(t, h.ok("tasks", "--server", s.URL), "travel")
	assert.True(t, s.sent()["Bearer secret"])
	_, stderr, _ := h.run("tasks", "--server", "http://127.0.0.1:1/")
	assert.Contains(t, stderr, "None of the saved calls")
}

func TestTasksUsage(t *testing.T) {
	h := newHome(t)
	saga := h.file("saga.json", `{"url":"http://127.0.0.1:1/","position":{"version":1,"dialect":"saga","tool":"x","token":"t"}}`)
	for line, want := range map[string]string{
		"tasks frob":               "no command",
		"tasks watch":              "which task",
		"tasks watch a b":          "which task",
		"tasks --output xml":       "--output",
		"tasks result " + saga:     "is no task",
		"call x --protocol smoke":  "--protocol",
		"call --resume x --detach": "--detach",
	} {
		_, stderr, code := inProcess(t, strings.Fields(line)...)
		assert.Equal(t, exitUsage, code, line)
		assert.Contains(t, stderr, want, line)
	}
}

// olderServer is one of the official SDK, whose tool asks by requests of its own.
func olderServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "older", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "travel"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct {
		Days int `json:"days"`
	}) (*mcp.CallToolResult, any, error) {
		where, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: "Where to?", RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"where": map[string]any{"type": "string"}}}})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("Went to ", where.Content["where"], ".")}}}, nil, nil
	})
	return s
}

// A server of an older revision can be called too, as long as the call is not to be left.
func TestOlderServers(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return olderServer() }, nil))
	t.Cleanup(web.Close)
	self, err := os.Executable()
	require.NoError(t, err)
	for name, server := range map[string]string{"HTTP": "--server=" + web.URL + "/", "stdio": "--stdio=" + asOlder + "=1 '" + self + "'"} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			assert.Equal(t, "Went to Oslo.\n", h.ok("call", "travel", "days=3", server, "--protocol", "2025-06-18", "--answers", h.file("a.json", `{"elicitation-1":{"where":"Oslo"}}`)))
			_, stderr, code := h.run("call", "travel", "days=3", server, "--protocol", "2025-11-25")
			assert.Equal(t, exitNeedsAnswer, code)
			assert.Contains(t, stderr, "elicitation-1 needs an answer")
			assert.Contains(t, stderr, "cannot go on later")
			assert.NotContains(t, stderr, "--resume")
			_, stderr, code = h.run("call", "travel", "days=3", server, "--protocol", "2025-11-25", "--detach")
			assert.Equal(t, exitUsage, code)
			assert.Contains(t, stderr, "leave out --detach")
			assert.Contains(t, h.ok("tools", server, "--protocol", "2024-11-05"), "travel")
			if name == "HTTP" { // over stdio the SDK speaks 2026-07-28 if it is asked
				assert.Contains(t, h.ok("tools", server), "travel")
			}
		})
	}
}
