package server_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
)

// Others' tasks, tasks that never were, and those that are forgotten are the same to a caller.
func TestTasksOfOthers(t *testing.T) {
	r := newTaskRig(t)
	mine := callTool("both", nil)
	mine.header.Set("User", "ann")
	id := r.begin(mine).TaskID
	as := func(user string, q *request) response {
		q.header.Set("User", user)
		return r.send(q)
	}
	require.Equal(t, id, readTask(t, as("ann", taskRequest("get", id)).Result).TaskID)
	unknown := as("ann", taskRequest("get", strings.Repeat("A", 22)))
	assert.Equal(t, -32602, unknown.code())
	for _, method := range []string{"get", "update", "cancel"} {
		m := as("bob", taskRequest(method, id, object{"inputResponses": object{}}))
		require.NotNil(t, m.Error, m.raw)
		assert.Equal(t, unknown.status, m.status)
		assert.Equal(t, *unknown.Error, *m.Error, method)
	}
	assert.NotEqual(t, "cancelled", readTask(t, as("ann", taskRequest("get", id)).Result).Status)
	l := listenFor(1, object{"taskIds": []string{id, id, "unknown"}}).with(withTasks)
	l.header.Set("User", "bob")
	assert.NotContains(t, string(r.listen(l).must("1", acknowledged)), "taskIds")
	l.header.Set("User", "ann")
	assert.Equal(t, `["`+id+`"]`, jsontest.Get(string(r.listen(l).must("1", acknowledged)), "notifications.taskIds").Raw)
	as("ann", taskRequest("cancel", id))
}

func TestTasksThatNeverWere(t *testing.T) {
	r := newTaskRig(t)
	want := ""
	for _, id := range []string{
		"x", strings.Repeat("A", 22), strings.Repeat("A", 21) + "=", strings.Repeat("B", 100_000), "../../etc/passwd", "' or 1=1 --", "\x00", "ü", "a\nb", `"`,
		"00000000-0000-0000-0000-000000000000", strings.Repeat("é", 11),
	} {
		for _, method := range []string{"get", "update", "cancel"} {
			q := taskRequest(method, id, object{"inputResponses": object{"sure": formed(object{"sure": true})}})
			raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": q.method, "params": object{"taskId": id, "inputResponses": object{}, "_meta": q.meta}})
			require.NoError(t, err)
			got := parseMessage(t, lines(t, r.srv, string(raw)+"\n")[0])
			require.Equal(t, -32602, got.code(), "%.40q", id)
			if want == "" {
				want = got.Error.Message
			}
			require.Equal(t, want, got.Error.Message, "%.40q", id)
		}
	}
	for name, params := range map[string]string{
		"no id": `{}`, "null": `{"taskId":null}`, "a number": `{"taskId":7}`, "a list": `{"taskId":["x"]}`, "empty": `{"taskId":""}`,
	} {
		for _, method := range []string{"get", "update", "cancel"} {
			q := modernRequest("tasks/"+method, nil).with(withTasks)
			require.NoError(t, json.Unmarshal([]byte(params), &q.params))
			q.header.Set("Mcp-Name", "x")
			m := r.send(q)
			assert.Contains(t, []int{-32602, -32020}, m.code(), "%s: %s", name, m.raw)
			got := parseMessage(t, lines(t, r.srv, q.body()+"\n")[0])
			assert.Equal(t, -32602, got.code(), name)
			assert.Contains(t, got.Error.Message, "taskId", name)
		}
	}
}

// Answers that have not the shape of answers change nothing.
func TestTaskAnswersOfTheWrongShape(t *testing.T) {
	r := newTaskRig(t)
	id := r.begin(callTool("both", nil)).TaskID
	before := r.until(id, "input_required")
	for name, responses := range map[string]string{
		"none": ``, "null": `null`, "a number": `7`, "a list": `[]`, "a string": `"sure"`, "a number in it": `{"sure":7}`, "null in it": `{"sure":null}`, "a list in it": `{"sure":[]}`,
		"no action": `{"sure":{}}`, "another action": `{"sure":{"action":"perhaps"}}`, "content that is none": `{"sure":{"action":"accept","content":7}}`,
		"one that fits and one that does not": `{"nick":{"action":"accept","content":{"nick":"x"}},"sure":{"action":7}}`,
		"a model's answer":                    `{"sure":{"role":"assistant","model":"m","content":{"type":"text","text":"yes"}}}`,
	} {
		q := taskRequest("update", id)
		if responses != "" {
			q.params["inputResponses"] = json.RawMessage(responses)
		}
		m := r.send(q)
		assert.Equal(t, -32602, m.code(), "%s: %s", name, m.raw)
		assert.Equal(t, before, r.task(id), name)
	}
	r.ack(taskRequest("cancel", id))
}

// A megabyte of answers that nobody has asked for costs no more than to read it.
func TestTaskAnswersThatAreMany(t *testing.T) {
	r := newTaskRig(t)
	id := r.begin(callTool("both", nil)).TaskID
	before := r.until(id, "input_required")
	many := object{}
	for len(many) < 9_000 {
		many["key"+strings.Repeat("k", len(many)%7)+string(rune('a'+len(many)%26))+time.Duration(len(many)).String()] = formed(object{"sure": true})
	}
	began := cputime.Used()
	r.ack(taskRequest("update", id, object{"inputResponses": many}))
	assert.Less(t, cputime.Used()-began, 2*time.Second)
	assert.Equal(t, before, r.task(id))
	long := formed(object{"nick": strings.Repeat("n", 900_000)})
	m := r.send(taskRequest("update", id, object{"inputResponses": object{"nick": long}}))
	require.Less(t, m.status, 500, "%.200s", m.raw)
	r.ack(taskRequest("cancel", id))
}

// Nobody has more tasks under way than the server allows, and others have theirs.
func TestTasksAreLimited(t *testing.T) {
	r := newTaskRig(t)
	refused := response{}
	var ids []string
	for range 1_100 {
		q := callTool("both", nil).with(withTasks)
		q.header.Set("User", "flood")
		if refused = r.send(q); refused.Error != nil {
			break
		}
		ids = append(ids, readTask(t, refused.Result).TaskID)
	}
	require.NotNil(t, refused.Error, "all of them began")
	assert.Equal(t, 429, refused.status)
	assert.Equal(t, -32600, refused.code())
	r.ack(taskRequest("cancel", r.begin(callTool("both", nil)).TaskID)) // somebody else's
	q := taskRequest("cancel", ids[0])
	q.header.Set("User", "flood")
	r.ack(q)
	require.Eventually(t, func() bool {
		q := callTool("both", nil).with(withTasks)
		q.header.Set("User", "flood")
		return r.send(q).Error == nil
	}, time.Minute, 20*time.Millisecond, "there is room again")
}
