package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/server"
)

// The extension is there if there is a ledger and a tool that can be a task, for clients of
// MCP 2026-07-28, and for nobody else.
func TestTasksAreOffered(t *testing.T) {
	discover := modernRequest("server/discover", nil)
	extensions := func(r *rig) string { return jsontest.Get(r.send(discover).raw, "result.capabilities.extensions").Raw }

	r := newTaskRig(t)
	assert.JSONEq(t, `{"`+tasksExtension+`":{}}`, extensions(r))
	assert.False(t, jsontest.Get(r.send(discover).raw, "result.capabilities.tasks").Exists())
	assert.NotContains(t, r.send(modernRequest("tools/list", nil)).raw, "taskSupport")
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		_, said := r.do(http.MethodPost, "/mcp", initializeMessage(version, everything), nil)
		assert.NotContains(t, said, tasksExtension, version)
	}

	for name, r := range map[string]*rig{
		"without a ledger": newTaskRig(t, func(o *server.Options) { o.Ledger, o.Tools = nil, o.Tools[:3] }),
		"without tasks":    newTaskRig(t, func(o *server.Options) { o.Tools = o.Tools[:1] }),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, extensions(r))
			for _, method := range []string{"get", "update", "cancel"} {
				m := r.send(taskRequest(method, "x"))
				assert.Equal(t, 404, m.status)
				assert.Equal(t, -32601, m.code())
			}
			l := r.listen(listenFor(1, object{"taskIds": []string{"x"}, "toolsListChanged": true}).with(withTasks))
			assert.NotContains(t, string(l.must("1", acknowledged)), "taskIds")
		})
	}
	r = newTaskRig(t, func(o *server.Options) { o.Ledger, o.Tools = nil, o.Tools[:3] })
	assert.Equal(t, "complete", r.send(callTool("nap", nil).with(withTasks)).result(t).ResultType)
}

// Who has not declared the extension, in this very request, hears of that first.
func TestTasksNeedADeclaration(t *testing.T) {
	r := newTaskRig(t)
	begun := r.begin(callTool("nap", object{"millis": 60_000}))
	for name, capabilities := range map[string]object{
		"nothing": {}, "others": {"extensions": object{"com.example/tasks": object{}}}, "not as it should": {"extensions": object{tasksExtension: true}},
		"that of 2025-11-25": {"tasks": object{"requests": object{}}},
	} {
		for _, id := range []string{begun.TaskID, "unknown", ""} {
			for _, method := range []string{"get", "update", "cancel"} {
				q := taskRequest(method, id).with(capabilities)
				q.header.Del("Mcp-Name")
				requireMissing(t, r.send(q), name+" "+method)
			}
		}
		q := modernRequest("tasks/get", nil).with(capabilities)
		requireMissing(t, r.send(q), name+", without a task")
		for _, ids := range [][]string{{}, {begun.TaskID}} {
			requireMissing(t, r.send(listenFor(1, object{"taskIds": ids}).with(capabilities)), name+" listen")
		}
		requireMissing(t, r.send(callTool("must", nil).with(capabilities)), name+" call")
		requireMissing(t, r.send(callTool("after", nil).with(capabilities)), name+" call")
		m := r.send(callTool("nap", nil).with(capabilities))
		assert.Equal(t, "awake", m.result(t).text(), "the client waits: %s", m.raw)
	}
	m := r.send(callTool("both", nil).with(allCapabilities)).result(t)
	assert.Equal(t, "input_required", m.ResultType, "the client drives it")
	done := r.send(callTool("both", nil).with(allCapabilities).answering(m.RequestState, object{
		"nick": formed(object{"nick": "Ann"}), "sure": formed(object{"sure": true}),
	}))
	assert.Equal(t, "Ann: true", done.result(t).text(), done.raw)
	r.ack(taskRequest("cancel", begun.TaskID))
}

func requireMissing(t *testing.T, m response, what string) {
	t.Helper()
	require.Equal(t, 400, m.status, "%s: %s", what, m.raw)
	require.Equal(t, -32021, m.code(), what)
	require.JSONEq(t, `{"requiredCapabilities":{"extensions":{"`+tasksExtension+`":{}}}}`, string(m.Error.Data), what)
}

func TestTaskMethodsThatAreGone(t *testing.T) {
	r := newTaskRig(t)
	for _, method := range []string{"result", "list"} {
		m := r.send(taskRequest(method, "x"))
		assert.Equal(t, 404, m.status)
		assert.Equal(t, -32601, m.code())
	}
}

// A task is what its tool and the server make of a call, whatever its client asks for.
func TestTaskParameterMeansNothing(t *testing.T) {
	r := newTaskRig(t)
	plain := callTool("plain", nil).with(withTasks)
	plain.params["task"] = object{"ttl": 60000, "pollInterval": 100}
	m := r.send(plain).result(t)
	assert.Equal(t, "complete", m.ResultType)
	assert.Equal(t, "done", m.text())
	nap := callTool("nap", nil)
	nap.params["task"] = object{"ttl": 1}
	assert.EqualValues(t, time.Hour.Milliseconds(), *r.begin(nap).TTLMs)
}

func TestTaskRunsToItsEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := newTaskRig(t)
		begun := r.begin(callTool("nap", object{"millis": 300}))
		assert.Equal(t, "working", begun.Status)
		assert.EqualValues(t, 250, *begun.PollMs)
		assert.EqualValues(t, time.Hour.Milliseconds(), *begun.TTLMs)
		assert.Equal(t, "working", r.task(begun.TaskID).Status, "as soon as it is told of")
		ended := r.until(begun.TaskID, "completed")
		assert.Equal(t, "awake", ended.Result.text())
		assert.Equal(t, "complete", ended.Result.ResultType, "what the call would have had")
		assert.Contains(t, ended.Result.Meta, "io.modelcontextprotocol/serverInfo")
		assert.Equal(t, begun.CreatedAt, ended.CreatedAt)
		assert.Equal(t, ended, r.task(begun.TaskID), "and it stays so")
	})
}

// The message of progress is that of the status.
func TestTaskSaysWhatGoesOn(t *testing.T) {
	r := newTaskRig(t)
	begun := r.begin(callTool("nap", object{"millis": 60_000}))
	require.Eventually(t, func() bool { return r.task(begun.TaskID).StatusMessage == "asleep" }, time.Minute, 10*time.Millisecond)
	r.ack(taskRequest("cancel", begun.TaskID))
}

// A tool that fails has a result; a task fails where a call would have had an error.
func TestTasksThatFail(t *testing.T) {
	r := newTaskRig(t)
	failed := r.until(r.begin(callTool("fails", nil)).TaskID, "completed")
	assert.True(t, failed.Result.IsError)
	assert.Equal(t, "it went wrong", failed.Result.text())
	broken := r.until(r.begin(callTool("breaks", nil)).TaskID, "failed")
	assert.Equal(t, -32603, broken.Error.Code)
	assert.Equal(t, "internal error", broken.Error.Message)
	assert.NotEmpty(t, broken.StatusMessage)
	assert.NotContains(t, string(broken.members["error"])+broken.StatusMessage, "a secret")
	before := r.log.take()
	assert.Contains(t, before, "a secret", "the operator hears of it")
	for range 3 {
		r.task(broken.TaskID)
	}
	assert.NotContains(t, r.log.take(), "a secret", "once")
}

// A task whose time is over has failed, and says so.
func TestTaskIsLate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := newTaskRig(t)
		begun := r.begin(callTool("late", nil))
		assert.EqualValues(t, 300, *begun.TTLMs)
		late := r.until(begun.TaskID, "failed")
		assert.Contains(t, late.Error.Message, "time to live")
		assert.Equal(t, late.Error.Message, late.StatusMessage)
	})
}

// What is asked before the task begins is asked in rounds, and leaves nothing in the task.
func TestRoundsBeforeATask(t *testing.T) {
	r := newTaskRig(t)
	first := r.send(callTool("after", nil).with(withTasks))
	asks := first.result(t)
	require.Equal(t, "input_required", asks.ResultType)
	require.Contains(t, asks.InputRequests, "nick")
	require.NotEmpty(t, asks.RequestState)
	assert.False(t, jsontest.Get(first.raw, "result.taskId").Exists())

	again := r.send(callTool("after", nil).with(withTasks).answering(asks.RequestState, object{}))
	assert.Equal(t, "input_required", again.result(t).ResultType, "it was not answered")
	begun := r.begin(callTool("after", nil).answering(asks.RequestState, object{"nick": formed(object{"nick": "Alice"})}))
	waits := r.until(begun.TaskID, "input_required")
	assert.Len(t, waits.InputRequests, 1)
	assert.NotContains(t, waits.InputRequests, "nick")
	for key, q := range waits.InputRequests {
		assert.Equal(t, "elicitation/create", q.Method)
		r.ack(taskRequest("update", begun.TaskID, object{"inputResponses": object{key: formed(object{"sure": true})}}))
	}
	assert.Equal(t, "Hello, Alice!", r.until(begun.TaskID, "completed").Result.text())

	// The same answer is the same task, and there is one.
	assert.Equal(t, begun.TaskID, r.begin(callTool("after", nil).answering(asks.RequestState, object{"nick": formed(object{"nick": "Alice"})})).TaskID)
	m := r.send(callTool("after", nil).with(withTasks).answering(asks.RequestState, object{"nick": formed(object{"nick": "Bob"})}))
	assert.Equal(t, -32602, m.code(), m.raw)
	assert.Contains(t, m.Error.Message, "requestState")

	// A saga may end before there is a task.
	m = r.send(callTool("after", object{"millis": 1}).with(withTasks))
	assert.Equal(t, "complete", m.result(t).ResultType, m.raw)
	assert.Equal(t, "No time for that.", m.result(t).text())

	for name, state := range map[string]any{"no string": 7, "changed": asks.RequestState + "A", "empty": ""} {
		q := callTool("after", nil).with(withTasks).answering("", object{"nick": formed(object{"nick": "Eve"})})
		q.params["requestState"] = state
		m := r.send(q)
		assert.Equal(t, -32602, m.code(), "%s: %s", name, m.raw)
	}
	m = r.send(callTool("after", nil).answering(asks.RequestState, object{"nick": formed(object{"nick": "Eve"})}))
	requireMissing(t, m, "the second round needs the declaration, too")
}

// Answers may come one by one. A key is never used again, and what nobody waits for is ignored.
func TestTaskAnswers(t *testing.T) {
	r := newTaskRig(t)
	begun := r.begin(callTool("both", nil))
	update := func(responses object) {
		r.ack(taskRequest("update", begun.TaskID, object{"inputResponses": responses}))
	}
	waits := r.until(begun.TaskID, "input_required")
	require.Len(t, waits.InputRequests, 2)
	update(object{})
	update(object{"unknown": object{"ignored": true}})
	require.Len(t, r.task(begun.TaskID).InputRequests, 2)
	update(object{"nick": formed(object{"nick": "Ann", "more": true})})
	left := r.task(begun.TaskID)
	require.Equal(t, "input_required", left.Status)
	require.Len(t, left.InputRequests, 1)
	require.Contains(t, left.InputRequests, "sure")
	update(object{"nick": formed(object{"nick": "Bob"})}) // answered already
	update(object{"sure": formed(object{"sure": true}), "nick": formed(object{"nick": "Cy"})})
	ended := r.until(begun.TaskID, "completed")
	assert.Equal(t, "Ann: true", ended.Result.text())
	update(object{"sure": formed(object{"sure": false})})
	assert.Equal(t, ended, r.task(begun.TaskID))

	begun = r.begin(callTool("twice", nil))
	seen := map[string]bool{}
	for len(seen) < 2 {
		waits := r.until(begun.TaskID, "input_required")
		for key := range waits.InputRequests {
			require.False(t, seen[key], "the key %s came twice", key)
			seen[key] = true
			update(object{key: formed(object{"sure": true})})
		}
	}
	r.until(begun.TaskID, "completed")
}

// A form that is filled in wrongly is asked again, under another key.
func TestTaskAnswersThatDoNotFit(t *testing.T) {
	r := newTaskRig(t)
	begun := r.begin(callTool("must", nil))
	require.Contains(t, r.until(begun.TaskID, "input_required").InputRequests, "sure")
	r.ack(taskRequest("update", begun.TaskID, object{"inputResponses": object{"sure": formed(object{"sure": "perhaps"})}}))
	var again taskShown
	require.Eventually(t, func() bool {
		again = r.task(begun.TaskID)
		return again.Status == "input_required"
	}, time.Minute, 5*time.Millisecond)
	assert.NotContains(t, again.InputRequests, "sure")
	for key := range again.InputRequests {
		r.ack(taskRequest("update", begun.TaskID, object{"inputResponses": object{key: formed(object{"sure": true})}}))
	}
	r.until(begun.TaskID, "completed")

	declined := r.begin(callTool("must", nil))
	r.until(declined.TaskID, "input_required")
	r.ack(taskRequest("update", declined.TaskID, object{"inputResponses": object{"sure": object{"action": "decline"}}}))
	assert.True(t, r.until(declined.TaskID, "completed").Result.IsError)
}

func TestTaskIsCancelled(t *testing.T) {
	r := newTaskRig(t)
	for status, call := range map[string]*request{"working": callTool("nap", object{"millis": 60_000}), "input_required": callTool("both", nil)} {
		begun := r.begin(call)
		r.until(begun.TaskID, status)
		r.ack(taskRequest("cancel", begun.TaskID))
		ended := r.until(begun.TaskID, "cancelled")
		r.ack(taskRequest("cancel", begun.TaskID))
		r.ack(taskRequest("update", begun.TaskID, object{"inputResponses": object{"sure": formed(object{"sure": true})}}))
		assert.Equal(t, ended, r.task(begun.TaskID))
	}
	done := r.begin(callTool("nap", nil))
	ended := r.until(done.TaskID, "completed")
	r.ack(taskRequest("cancel", done.TaskID))
	assert.Equal(t, ended, r.task(done.TaskID))

	// That the request is cancelled says nothing of the task.
	p := newPipe(t, r.srv)
	q := callTool("nap", object{"millis": 100}).with(withTasks)
	p.send(q)
	begun := readTask(t, p.next().Result)
	cancel := modernRequest("notifications/cancelled", object{"requestId": q.id})
	cancel.id = nil
	p.send(cancel)
	require.Eventually(t, func() bool {
		p.send(taskRequest("get", begun.TaskID))
		return readTask(t, p.next().Result).Status == "completed"
	}, time.Minute, 20*time.Millisecond)
}

// The same key is the same task.
func TestTaskOfAKey(t *testing.T) {
	r := newTaskRig(t)
	call := func(key string, args object) response {
		q := callTool("nap", args).with(withTasks)
		q.meta["io.github.mcpsaga/idempotencyKey"] = key
		return r.send(q)
	}
	one, two, three := call("a", object{"millis": 50}), call("a", object{"millis": 50}), call("b", object{"millis": 50})
	assert.Equal(t, readTask(t, one.Result).TaskID, readTask(t, two.Result).TaskID)
	assert.NotEqual(t, readTask(t, one.Result).TaskID, readTask(t, three.Result).TaskID)
	r.until(readTask(t, one.Result).TaskID, "completed")
	assert.Equal(t, readTask(t, one.Result).TaskID, readTask(t, call("a", object{"millis": 50}).Result).TaskID, "also when it has ended")
	other := call("a", object{"millis": 51})
	assert.Equal(t, -32602, other.code(), other.raw)
}

func TestTaskHeaders(t *testing.T) {
	r := newTaskRig(t)
	id := r.begin(callTool("nap", nil)).TaskID
	for name, change := range map[string]func(http.Header){
		"no name":         func(h http.Header) { h.Del("Mcp-Name") },
		"another name":    func(h http.Header) { h.Set("Mcp-Name", "another") },
		"a broken name":   func(h http.Header) { h.Set("Mcp-Name", "=?base64?SGVsbG8?=") },
		"no method":       func(h http.Header) { h.Del("Mcp-Method") },
		"another method":  func(h http.Header) { h.Set("Mcp-Method", "tasks/cancel") },
		"one of 2025":     func(h http.Header) { h.Set("Mcp-Method", "tasks/result") },
		"another version": func(h http.Header) { h.Set("Mcp-Protocol-Version", "2025-11-25") },
	} {
		q := taskRequest("get", id)
		change(q.header)
		m := r.send(q)
		assert.Equal(t, 400, m.status, name)
		assert.Equal(t, -32020, m.code(), name)
	}
	q := taskRequest("get", id)
	q.header.Set("Mcp-Name", "  "+id+"\t")
	assert.Equal(t, id, readTask(t, r.send(q).Result).TaskID)
}

// The methods of the saga proposal cannot drive what has to be a task, and do not say so.
func TestSagaMethodsAndTasks(t *testing.T) {
	r := newTaskRig(t)
	for _, way := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"must"}}`, modernSaga("callSaga", object{"name": "must"}).with(withTasks).body()} {
		got := parseMessage(t, lines(t, r.srv, way+"\n")[0])
		assert.Equal(t, -32602, got.code())
		assert.Contains(t, got.Error.Message, "tools/call")
	}
	list := r.send(modernRequest("tools/list", nil)).raw
	for _, tool := range jsontest.Get(list, "result.tools").Array() {
		marked := tool.Get(`_meta.io\.github\.mcpsaga/saga`).Exists()
		name := tool.Get("name").String()
		assert.Equal(t, name == "both" || name == "twice", marked, name)
	}
}

// A call of a tool that can only be a task stays one, whatever stands beside its state.
func TestRequiredTaskWithResumeToken(t *testing.T) {
	r := newTaskRig(t)
	asks := r.send(callTool("after", nil).with(withTasks)).result(t)
	q := callTool("after", nil).answering(asks.RequestState, object{"nick": formed(object{"nick": "Alice"})})
	q.params["resumeToken"] = "any"
	assert.Equal(t, "working", r.begin(q).Status)
}
