package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// legacyTask is a task as 2025-11-25 shows it.
type legacyTask struct {
	TaskID        string `json:"taskId"`
	Status        string
	StatusMessage string
	CreatedAt     string
	LastUpdatedAt string
	TTL           *int64
	PollInterval  *int64
}

// readLegacyTask reads a task and checks what is true of every one.
func readLegacyTask(t testing.TB, raw json.RawMessage) legacyTask {
	t.Helper()
	var s legacyTask
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &s), string(raw))
	require.NoError(t, json.Unmarshal(raw, &members))
	require.NotEmpty(t, s.TaskID, string(raw))
	require.Contains(t, []string{"working", "input_required", "completed", "failed", "cancelled"}, s.Status)
	for _, at := range []string{s.CreatedAt, s.LastUpdatedAt} {
		require.Regexp(t, isoTime, at)
	}
	require.Contains(t, members, "ttl")
	for _, never := range []string{"ttlMs", "pollIntervalMs", "inputRequests", "result", "error", "_meta"} {
		require.NotContains(t, members, never)
	}
	return s
}

func methodCall(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

func taskCall(id int, tool, args, task string) string {
	return methodCall(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"task":%s}`, tool, args, task))
}

func aboutTask(id int, method, task string) string {
	return methodCall(id, "tasks/"+method, fmt.Sprintf(`{"taskId":%q}`, task))
}

// user opens a session of a known user.
func (r *rig) user(name, version string) *legacyClient {
	return r.connect(version, everything, func(c *legacyClient) { c.header.Set("User", name) })
}

func (c *legacyClient) refused(message string) (code int, text string) {
	c.t.Helper()
	m := parseLegacy(c.t, c.ask(message))
	require.NotNil(c.t, m.Error, "%s", m.Result)
	return m.Error.Code, m.Error.Message
}

func (c *legacyClient) create(tool, args string) legacyTask {
	c.t.Helper()
	// Nothing is asked here, so the client need not be able to hear it.
	m := parseLegacy(c.t, readAll(c.t, c.request(http.MethodPost, taskCall(1, tool, args, "{}"), func(r *http.Request) {
		r.Header.Set("Accept", "application/json")
	})))
	require.Nil(c.t, m.Error)
	var created struct {
		Task json.RawMessage `json:"task"`
	}
	require.NoError(c.t, json.Unmarshal(m.Result, &created))
	task := readLegacyTask(c.t, created.Task)
	require.Regexp(c.t, `^[A-Za-z0-9_-]{22}$`, task.TaskID)
	return task
}

func (c *legacyClient) task(id string) legacyTask {
	c.t.Helper()
	return readLegacyTask(c.t, parseLegacy(c.t, c.ask(aboutTask(2, "get", id))).Result)
}

func (c *legacyClient) until(id, status string) legacyTask {
	c.t.Helper()
	var s legacyTask
	require.Eventually(c.t, func() bool { s = c.task(id); return s.Status == status }, time.Minute, 5*time.Millisecond, "%s", status)
	return s
}

// relatedTo returns the task that a message's params or result say they belong to.
func relatedTo(t testing.TB, object json.RawMessage) string {
	t.Helper()
	var o struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	require.NoError(t, json.Unmarshal(object, &o), string(object))
	var related struct {
		TaskID string `json:"taskId"`
	}
	if raw := o.Meta["io.modelcontextprotocol/related-task"]; raw != nil {
		require.NoError(t, json.Unmarshal(raw, &related))
	}
	return related.TaskID
}

// taskToolsWithout are the tools for tasks but for some.
func taskToolsWithout(names ...string) []saga.Definition {
	return slices.DeleteFunc(taskTools(), func(d saga.Definition) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(fmt.Sprintf("%+v", d), "{Name:"+name+" ") })
	})
}

// Who is offered tasks, and what is wrong use.
func TestSessionTasksAreForOneRevision(t *testing.T) {
	with, without := newTaskRig(t), newRig(t, server.Options{Tools: taskToolsWithout("must", "after"), Authenticate: users})
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		for name, r := range map[string]*rig{"ledger": with, "none": without} {
			t.Run(version+" "+name, func(t *testing.T) {
				c := r.user("ann", version)
				resp := c.request(http.MethodPost, initializeMessage(version, everything), nil)
				hello := readAll(t, resp)
				list := c.ask(listTools)
				if version != "2025-11-25" || r == without {
					assert.NotContains(t, hello, `"tasks"`)
					assert.NotContains(t, list, "execution")
					assert.NotContains(t, list, "taskSupport")
					for _, method := range []string{"get", "cancel", "result", "list"} {
						code, text := c.refused(aboutTask(1, method, "x"))
						assert.Equal(t, -32601, code)
						assert.Equal(t, "method not found", text)
					}
					text, isError := text(t, parseLegacy(t, c.ask(taskCall(1, "plain", "{}", "{}"))).Result)
					assert.Equal(t, "done", text, "the parameter means nothing")
					assert.False(t, isError)
					return
				}
				assert.Contains(t, hello, `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`)
				var listed struct {
					Tools []struct {
						Name      string
						Execution struct{ TaskSupport string }
					}
				}
				require.NoError(t, json.Unmarshal(parseLegacy(t, list).Result, &listed))
				got := map[string]string{}
				for _, tool := range listed.Tools {
					got[tool.Name] = tool.Execution.TaskSupport
				}
				assert.Subset(t, got, map[string]string{"plain": "", "both": "optional", "must": "required", "after": "required"})
				for _, wrong := range []string{taskCall(1, "plain", "{}", "{}"), toolCall(1, "must", "{}")} {
					code, text := c.refused(wrong)
					assert.Equal(t, -32601, code)
					assert.Contains(t, text, "params.task")
				}
				for _, task := range []string{`[]`, `"x"`, `{"ttl":-1}`, `{"ttl":"x"}`} {
					code, _ := c.refused(taskCall(1, "both", "{}", task))
					assert.Equal(t, -32602, code, task)
				}
			})
		}
	}
	// Whoever is nobody in particular must not see the tasks of all others that are.
	anonymous := newTaskRig(t, noUsers)
	c := anonymous.connect("2025-11-25", everything)
	assert.Contains(t, readAll(t, c.post(initializeMessage("2025-11-25", everything))), `"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	code, _ := c.refused(methodCall(1, "tasks/list", "{}"))
	assert.Equal(t, -32601, code)
	assert.NotEmpty(t, c.create("fails", "{}").TaskID)
	// Neither are they shown to modern clients.
	assert.NotContains(t, with.send(modernRequest("tools/list", object{})).raw, "taskSupport")
	assert.NotContains(t, with.send(modernRequest("server/discover", object{})).raw, `"tasks":{"`)
}

// A task asks on the stream of whoever waits for its result.
func TestSessionTask(t *testing.T) {
	r := newTaskRig(t)
	c := r.user("ann", "2025-11-25")
	task := c.create("both", "{}")
	assert.Equal(t, "working", task.Status)
	assert.Equal(t, int64(time.Hour/time.Millisecond), *task.TTL)
	assert.Equal(t, int64(250), *task.PollInterval)
	c.until(task.TaskID, "input_required")

	s := c.stream(aboutTask(7, "result", task.TaskID))
	status := s.wait("notifications/tasks/status")
	assert.Equal(t, "input_required", readLegacyTask(t, status.Params).Status)
	first, second := s.wait("elicitation/create"), s.wait("elicitation/create")
	for _, ask := range []sseEvent{first, second} {
		assert.Equal(t, task.TaskID, relatedTo(t, ask.Params))
		if strings.Contains(ask.data, "call you") {
			c.reply(ask.ID, `{"action":"accept","content":{"nick":"Jo"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+task.TaskID+`"}}}`)
		} else {
			c.reply(ask.ID, `{"action":"accept","content":{"sure":true}}`)
		}
	}
	end := s.wait("")
	said, isError := text(t, end.Result)
	assert.Equal(t, "Jo: true", said)
	assert.False(t, isError)
	assert.Equal(t, task.TaskID, relatedTo(t, end.Result))
	s.end()
	assert.Equal(t, "completed", c.task(task.TaskID).Status)
	// Again, at another session of the same user.
	other := r.user("ann", "2025-11-25")
	assert.JSONEq(t, string(end.Result), string(parseLegacy(t, other.ask(aboutTask(1, "result", task.TaskID))).Result))
	code, why := c.refused(aboutTask(1, "cancel", task.TaskID))
	assert.Equal(t, -32602, code)
	assert.Contains(t, why, "ended")
}

// Whoever lost the connection waits again, elsewhere: it is asked what is still open, and
// what was asked before needs no answer any more.
func TestSessionTaskResultAgain(t *testing.T) {
	r := newTaskRig(t)
	c := r.user("ann", "2025-11-25")
	task := c.create("both", "{}")
	lost := c.stream(aboutTask(7, "result", task.TaskID))
	one, two := lost.wait("elicitation/create"), lost.wait("elicitation/create")
	if !strings.Contains(one.data, "call you") {
		one, two = two, one
	}
	c.reply(one.ID, `{"action":"accept","content":{"nick":"Jo"}}`)
	other := r.user("ann", "2025-11-25")
	require.Eventually(t, func() bool { // the answer is kept, though the task waits for the other
		s := other.stream(aboutTask(1, "result", task.TaskID))
		ask := s.wait("elicitation/create")
		defer s.close()
		if strings.Contains(ask.data, "call you") {
			other.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			return false
		}
		other.reply(ask.ID, `{"action":"accept","content":{"sure":true}}`)
		for m := s.message(); ; m = s.message() {
			switch m.Method {
			case "": // only the other question was open
				said, _ := text(t, m.Result)
				return said == "Jo: true"
			case "elicitation/create": // that was too early: this time only the first is
				other.post(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"nick":"Jo"}}}`).Body.Close()
			}
		}
	}, time.Minute, 10*time.Millisecond)
	back := lost.wait("notifications/cancelled")
	assert.Contains(t, back.data, `"requestId":`+string(two.ID))
	said, _ := text(t, lost.wait("").Result)
	assert.Equal(t, "Jo: true", said)
	c.vain(two.ID, `{"action":"accept","content":{"sure":false}}`)
}

func TestSessionTaskCancel(t *testing.T) {
	r := newTaskRig(t)
	c := r.user("ann", "2025-11-25")
	for tool, status := range map[string]string{"nap": "working", "both": "input_required"} {
		args := "{}"
		if tool == "nap" {
			args = `{"millis":3600000}`
		}
		task := c.create(tool, args)
		c.until(task.TaskID, status)
		m := parseLegacy(t, c.ask(aboutTask(1, "cancel", task.TaskID)))
		assert.Equal(t, "cancelled", readLegacyTask(t, m.Result).Status)
		code, _ := c.refused(aboutTask(1, "cancel", task.TaskID))
		assert.Equal(t, -32602, code)
		end := parseLegacy(t, c.ask(aboutTask(1, "result", task.TaskID)))
		said, isError := text(t, end.Result)
		assert.True(t, isError)
		assert.Equal(t, "Cancelled.", said)
	}
	// To take back the wait is not to cancel the task.
	task := c.create("both", "{}")
	s := c.stream(aboutTask(9, "result", task.TaskID))
	s.wait("elicitation/create")
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	for {
		if _, err := s.next(); err != nil {
			break
		}
	}
	assert.Equal(t, "input_required", c.task(task.TaskID).Status)
}

func TestSessionTaskFails(t *testing.T) {
	c := newTaskRig(t).user("ann", "2025-11-25")
	failed := c.create("fails", "{}")
	shown := c.until(failed.TaskID, "failed")
	assert.Equal(t, "it went wrong", shown.StatusMessage)
	said, isError := text(t, parseLegacy(t, c.ask(aboutTask(1, "result", failed.TaskID))).Result)
	assert.True(t, isError)
	assert.Equal(t, "it went wrong", said)

	broken := c.create("breaks", "{}")
	shown = c.until(broken.TaskID, "failed")
	assert.Equal(t, "internal error", shown.StatusMessage)
	code, why := c.refused(aboutTask(1, "result", broken.TaskID))
	assert.Equal(t, -32603, code)
	assert.Equal(t, "internal error", why)

	wordy := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "wordy", Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run:  func(*saga.Run, struct{}) (string, error) { return "", saga.Failf("x%s", strings.Repeat("ä", 600)) },
	}
	w := newTaskRig(t, func(o *server.Options) { o.Tools = append(o.Tools, wordy) }).user("ann", "2025-11-25")
	shown = w.until(w.create("wordy", "{}").TaskID, "failed")
	assert.Equal(t, "x"+strings.Repeat("ä", 499)+"…", shown.StatusMessage, "cut between letters")

	late := c.create("late", "{}")
	assert.Contains(t, c.until(late.TaskID, "failed").StatusMessage, "longer than its time to live")
}

// Others' tasks are not there.
func TestSessionTasksAreOnesOwn(t *testing.T) {
	r := newTaskRig(t)
	ann, bob := r.user("ann", "2025-11-25"), r.user("bob", "2025-11-25")
	mine := ann.create("both", "{}")
	_, unknown := bob.refused(aboutTask(1, "get", strings.Repeat("A", 22)))
	for _, id := range []string{mine.TaskID, "", "x", strings.Repeat("x", 10_000), "é"} {
		for _, method := range []string{"get", "cancel", "result"} {
			code, why := bob.refused(aboutTask(1, method, id))
			assert.Equal(t, -32602, code)
			assert.Equal(t, unknown, why)
		}
	}
	for _, params := range []string{`{}`, `{"taskId":1}`, `{"taskId":null}`} {
		code, _ := bob.refused(methodCall(1, "tasks/get", params))
		assert.Equal(t, -32602, code)
	}
	const many = 60
	want := map[string]bool{mine.TaskID: true}
	for range many - 1 {
		want[ann.create("both", "{}").TaskID] = true
	}
	got, pages, cursor, next := map[string]bool{}, 0, "", ""
	for {
		m := parseLegacy(t, ann.ask(methodCall(1, "tasks/list", fmt.Sprintf(`{"cursor":%q}`, cursor))))
		require.Nil(t, m.Error)
		var page struct {
			Tasks      []json.RawMessage
			NextCursor string
		}
		require.NoError(t, json.Unmarshal(m.Result, &page))
		for _, raw := range page.Tasks {
			got[readLegacyTask(t, raw).TaskID] = true
		}
		pages++
		if cursor = page.NextCursor; cursor == "" {
			break
		}
		next = cursor
	}
	assert.Equal(t, want, got)
	assert.Equal(t, 2, pages)
	assert.JSONEq(t, `{"tasks":[]}`, string(parseLegacy(t, bob.ask(methodCall(1, "tasks/list", `{}`))).Result))
	assert.JSONEq(t, `{"tasks":[]}`, string(parseLegacy(t, bob.ask(methodCall(1, "tasks/list", fmt.Sprintf(`{"cursor":%q}`, next)))).Result), "ann's cursor")
	for _, cursor := range []string{
		`"` + strings.Repeat("x", 257) + `"`, `"a b"`, `"\u0000"`, `"%"`, `7`, `"bogus"`, `"` + next[1:] + `"`, `"` + next[:len(next)-1] + `"`, `"` + next + `A"`,
		`"` + next + `\n"`,
	} {
		code, _ := ann.refused(methodCall(1, "tasks/list", `{"cursor":`+cursor+`}`))
		assert.Equal(t, -32602, code, cursor)
	}
}
