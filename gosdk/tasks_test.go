package gosdk_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
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

const tasksExtension = "io.modelcontextprotocol/tasks"

var withTasks = object{"elicitation": object{"form": object{}}, "extensions": object{tasksExtension: object{}}}

type agreed struct {
	Agreed bool `json:"agreed"`
}

// later asks in a task.
func later(mode saga.TaskMode) saga.Definition {
	ask := &steps.Form[agreed]{ID: "agreed", Message: "Agreed?"}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "later", Asks: []steps.Question{ask}, Tasks: saga.Tasks{Mode: mode}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Ask(r, ask)
			return "done", err
		},
	}
}

func mountTasks(t *testing.T, mode saga.TaskMode, hooks ...server.Hooks) *host {
	t.Helper()
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	h := mount(t, gosdk.Options{Ledger: store, Hooks: hooks}, later(mode))
	t.Cleanup(h.shutDown)
	return h
}

// taskWays send requests of MCP 2026-07-28: over HTTP and on lines.
func taskWays(t *testing.T, h *host) map[string]func(method, name string, params object, capabilities object) (int, jsontest.Value) {
	url, w := h.serve(), h.wire()
	return map[string]func(string, string, object, object) (int, jsontest.Value){
		"HTTP": func(method, name string, params, capabilities object) (int, jsontest.Value) {
			status, _, body := post(t, httpClient, url, message(1, method, withMeta(params, meta(capabilities))),
				"MCP-Protocol-Version", modern, "Mcp-Method", method, "Mcp-Name", name)
			return status, last(body)
		},
		"lines": func(method, _ string, params, capabilities object) (int, jsontest.Value) {
			return 0, w.ask(method, withMeta(params, meta(capabilities)))
		},
	}
}

// Hooks know whose task it is in every turn, and by which request it was begun.
func TestHooksOfTasks(t *testing.T) {
	turns := make(chan string, 10)
	h := mountTasks(t, saga.TasksOptional, server.Hooks{Turn: func(ctx context.Context, i *server.TurnInfo, next func(context.Context) error) error {
		turns <- fmt.Sprint(i.Action, " ", i.Request.Method, " ", i.Request.Dialect)
		return next(ctx)
	}})
	w := h.wire()
	ask := func(method string, params object) jsontest.Value {
		return w.ask(method, withMeta(params, meta(withTasks))).Get("result")
	}
	id := ask("tools/call", object{"name": "later"}).Get("taskId").String()
	assert.Equal(t, "call tools/call MCP 2026-07-28", <-turns)
	require.Eventually(t, func() bool { return ask("tasks/get", object{"taskId": id}).Get("status").String() == "input_required" }, time.Minute, 10*time.Millisecond)
	ask("tasks/update", object{"taskId": id, "inputResponses": object{"agreed": object{"action": "decline"}}})
	assert.Equal(t, "resume tools/call MCP 2026-07-28", <-turns)
}

// A task goes its way on an SDK server as on ours.
func TestMountedTasks(t *testing.T) {
	h := mountTasks(t, saga.TasksOptional)
	for name, send := range taskWays(t, h) {
		t.Run(name, func(t *testing.T) {
			_, said := send("server/discover", "", object{}, object{})
			assert.JSONEq(t, `{}`, said.Get("result.capabilities.extensions."+`io\.modelcontextprotocol/tasks`).Raw)

			_, said = send("tools/call", "later", object{"name": "later"}, withTasks)
			require.Equal(t, "task", said.Get("result.resultType").String(), said.Raw)
			assert.False(t, said.Get("result.content").Exists(), said.Raw)
			assert.True(t, said.Get("result._meta").Exists())
			id := said.Get("result.taskId").String()
			get := func() jsontest.Value {
				_, said := send("tasks/get", id, object{"taskId": id}, withTasks)
				require.Equal(t, "complete", said.Get("result.resultType").String(), said.Raw)
				return said.Get("result")
			}
			require.Eventually(t, func() bool { return get().Get("status").String() == "input_required" }, time.Minute, 10*time.Millisecond)
			assert.Equal(t, "elicitation/create", get().Get("inputRequests.agreed.method").String())
			_, said = send("tasks/update", id, object{"taskId": id, "inputResponses": object{"agreed": object{"action": "accept", "content": object{"agreed": true}}}}, withTasks)
			assert.Equal(t, "complete", said.Get("result.resultType").String(), said.Raw)
			require.Eventually(t, func() bool { return get().Get("status").String() == "completed" }, time.Minute, 10*time.Millisecond)
			assert.Equal(t, "done", get().Get("result.content").Array()[0].Get("text").String())
			_, said = send("tasks/cancel", id, object{"taskId": id}, withTasks)
			assert.Equal(t, "complete", said.Get("result.resultType").String(), said.Raw)
			assert.Equal(t, "completed", get().Get("status").String())

			_, said = send("tools/call", "later", object{"name": "later"}, forms)
			assert.Equal(t, "input_required", said.Get("result.resultType").String(), "the client drives it: %s", said.Raw)
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				status, said := send(method, id, object{"taskId": id}, forms)
				assert.EqualValues(t, -32021, said.Get("error.code").Int(), said.Raw)
				assert.True(t, said.Get(`error.data.requiredCapabilities.extensions.io\.modelcontextprotocol/tasks`).Exists())
				status2, said := send(method, "x", object{"taskId": "x", "inputResponses": object{}}, withTasks)
				assert.EqualValues(t, -32602, said.Get("error.code").Int(), said.Raw)
				if name == "HTTP" {
					assert.Equal(t, []int{400, 400}, []int{status, status2})
				}
			}
			for _, method := range []string{"tasks/result", "tasks/list"} {
				_, said := send(method, id, object{"taskId": id}, withTasks)
				assert.EqualValues(t, -32601, said.Get("error.code").Int(), said.Raw)
			}
		})
	}
}

// The SDK compares the header Mcp-Name for methods that it knows: for these we do.
func TestTaskNamedInTheHeader(t *testing.T) {
	send := taskWays(t, mountTasks(t, saga.TasksOptional))["HTTP"]
	_, said := send("tools/call", "later", object{"name": "later"}, withTasks)
	id := said.Get("result.taskId").String()
	for _, name := range []string{"", "another"} {
		_, said = send("tasks/get", name, object{"taskId": id}, withTasks)
		assert.EqualValues(t, -32020, said.Get("error.code").Int(), said.Raw)
	}
	_, said = send("tasks/cancel", id, object{"taskId": id}, withTasks)
	assert.True(t, said.Get("result").Exists(), said.Raw)
}

func TestTasksThatAreRequired(t *testing.T) {
	send := taskWays(t, mountTasks(t, saga.TasksRequired))["HTTP"]
	status, said := send("tools/call", "later", object{"name": "later"}, forms)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.EqualValues(t, -32021, said.Get("error.code").Int(), said.Raw)
}

// Older clients are told of no extension, nor is anybody where there are no tasks.
func TestTasksAreNotOffered(t *testing.T) {
	h := mountTasks(t, saga.TasksOptional)
	w := h.wire()
	assert.NotContains(t, w.greet(legacy, forms).Raw, tasksExtension)
	w = mount(t, gosdk.Options{}, later(saga.TasksOptional)).wire() // without a ledger
	said := w.ask("server/discover", withMeta(object{}, meta(withTasks)))
	assert.NotContains(t, said.Raw, tasksExtension)
	assert.EqualValues(t, -32601, w.ask("tasks/get", withMeta(object{"taskId": "x"}, meta(withTasks))).Get("error.code").Int())
	assert.Equal(t, "input_required", w.ask("tools/call", withMeta(object{"name": "later"}, meta(withTasks))).Get("result.resultType").String())
}

// Middleware that gives a call another context keeps its task from being told of.
func TestTaskBehindMiddleware(t *testing.T) {
	s := newSDK(nil)
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				ctx = context.Background()
			}
			return next(ctx, method, r)
		}
	})
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	h := mountOn(t, s, gosdk.Options{Ledger: store}, later(saga.TasksOptional))
	t.Cleanup(h.shutDown)
	said := h.wire().ask("tools/call", withMeta(object{"name": "later"}, meta(withTasks)))
	assert.EqualValues(t, -32603, said.Get("error.code").Int(), said.Raw)
	assert.Contains(t, h.log.String(), "middleware")
}

// A task of a client that cannot ask waits for its model to relay, on an SDK server as on ours.
func TestMountedTasksOfClientsThatCannotAsk(t *testing.T) {
	w := mountTasks(t, saga.TasksOptional, server.Hooks{}).wire()
	unable := object{"extensions": object{tasksExtension: object{}}}
	ask := func(method string, params object) jsontest.Value {
		return w.ask(method, withMeta(params, meta(unable))).Get("result")
	}
	assert.Contains(t, ask("tools/list", object{}).Raw, "resumeToken")
	id := ask("tools/call", object{"name": "later"}).Get("taskId").String()
	require.Eventually(t, func() bool {
		now := ask("tasks/get", object{"taskId": id})
		assert.Equal(t, "working", now.Get("status").String())
		return strings.Contains(now.Get("statusMessage").String(), "resumeToken: "+id)
	}, time.Minute, 10*time.Millisecond)
	ask("tools/call", object{"name": "later", "arguments": object{"resumeToken": id, "answers": object{"agreed": object{"agreed": true}}}})
	require.Eventually(t, func() bool { return ask("tasks/get", object{"taskId": id}).Get("status").String() == "completed" }, time.Minute, 10*time.Millisecond)
}
