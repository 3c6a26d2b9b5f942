package server_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const taskNotification = "notifications/tasks"

// news is the next notification about a task.
func (l *listening) news(id string) taskShown {
	l.t.Helper()
	return readTask(l.t, l.must(id, taskNotification))
}

// A subscription tells how a task stands, and then of each change, in the words of tasks/get.
func TestListenToTasks(t *testing.T) {
	r := newTaskRig(t)
	both, nap := r.begin(callTool("both", nil)), r.begin(callTool("nap", object{"millis": 60_000}))
	r.until(both.TaskID, "input_required")
	l := r.listen(listenFor("a", object{"taskIds": []string{both.TaskID}, "toolsListChanged": true}).with(withTasks))
	ack := string(l.must(`"a"`, acknowledged))
	assert.JSONEq(t, `{"toolsListChanged":true,"taskIds":["`+both.TaskID+`"]}`, jsontest.Get(ack, "notifications").Raw)

	now := l.news(`"a"`)
	assert.Equal(t, "input_required", now.Status)
	assert.Equal(t, r.task(both.TaskID).InputRequests, now.InputRequests)
	r.srv.ToolsChanged()
	l.must(`"a"`, "notifications/tools/list_changed")
	r.ack(taskRequest("update", both.TaskID, object{"inputResponses": object{"nick": formed(object{"nick": "Ann"})}}))
	now = l.news(`"a"`)
	assert.Equal(t, "input_required", now.Status)
	assert.Len(t, now.InputRequests, 1)
	r.ack(taskRequest("update", both.TaskID, object{"inputResponses": object{"sure": formed(object{"sure": true})}}))
	for now = l.news(`"a"`); now.Status == "working"; now = l.news(`"a"`) {
	}
	assert.Equal(t, "completed", now.Status)
	assert.Equal(t, "Ann: true", now.Result.text())
	want := r.task(both.TaskID)
	for _, member := range []string{"resultType", "_meta"} {
		delete(want.members, member)
		delete(now.members, member)
	}
	assert.Equal(t, want.members, now.members)
	r.ack(taskRequest("cancel", nap.TaskID)) // nobody asked
	r.srv.ToolsChanged()
	l.must(`"a"`, "notifications/tools/list_changed")
}

// What has ended before the subscription began is told, too, and so is a failure.
func TestListenToTasksThatEnded(t *testing.T) {
	r := newTaskRig(t)
	for tool, status := range map[string]string{"nap": "completed", "fails": "completed", "breaks": "failed"} {
		id := r.begin(callTool(tool, nil)).TaskID
		r.until(id, status)
		l := r.listen(listenFor(1, object{"taskIds": []string{id}}).with(withTasks))
		l.must("1", acknowledged)
		assert.Equal(t, status, l.news("1").Status, tool)
	}
	id := r.begin(callTool("nap", object{"millis": 60_000})).TaskID
	l := r.listen(listenFor(1, object{"taskIds": []string{id}}).with(withTasks))
	l.must("1", acknowledged)
	r.ack(taskRequest("cancel", id))
	for now := l.news("1"); now.Status != "cancelled"; now = l.news("1") {
		assert.Equal(t, "working", now.Status)
	}
}

// What a task yields begins its result, however its client learns of that.
func TestTasksYieldModern(t *testing.T) {
	r := newTaskRig(t, func(o *server.Options) { o.Tools = []saga.Definition{inParts} })
	texts := func(shown taskShown) (list []string) {
		for _, block := range shown.Result.Content {
			list = append(list, block.Text)
		}
		return list
	}
	id := r.begin(callTool("parts", nil)).TaskID
	whole := []string{"one", "two", "three"}
	assert.Equal(t, whole, texts(r.until(id, "completed")))
	l := r.listen(listenFor(1, object{"taskIds": []string{id}}).with(withTasks))
	l.must("1", acknowledged)
	assert.Equal(t, whole, texts(l.news("1")))
}

// No two notifications in a row are the same: what changes inside, no client hears of.
func TestListenToTasksTellsOfChanges(t *testing.T) {
	t.Parallel()
	r := newTaskRig(t)
	id := r.begin(callTool("nap", object{"millis": 500})).TaskID
	l := r.listen(listenFor(1, object{"taskIds": []string{id}}).with(withTasks))
	l.must("1", acknowledged)
	last := ""
	for {
		raw := string(l.must("1", taskNotification))
		assert.NotEqual(t, last, raw)
		if last = raw; readTask(t, json.RawMessage(raw)).Status == "completed" {
			return
		}
	}
}

// On standard input and output it is the same.
func TestListenToTasksOnLines(t *testing.T) {
	r := newTaskRig(t, noUsers)
	p := newPipe(t, r.srv)
	p.send(callTool("both", nil).with(withTasks))
	id := readTask(t, p.next().Result).TaskID
	p.send(listenFor("x", object{"taskIds": []string{id, "nope"}}).with(withTasks))
	m := p.next()
	require.Equal(t, acknowledged, m.Method)
	assert.Equal(t, `["`+id+`"]`, jsontest.Get(m.raw, "params.notifications.taskIds").Raw)
	now := taskShown{}
	next := func() {
		t.Helper()
		m := p.next()
		for m.ID != nil {
			m = p.next() // an acknowledgement of ours
		}
		require.Equal(t, taskNotification, m.Method, m.raw)
		requireSubscription(t, `"x"`, m)
		now = readTask(t, m.Params)
	}
	for next(); now.Status == "working"; next() {
	}
	require.Equal(t, "input_required", now.Status)
	p.send(taskRequest("update", id, object{"inputResponses": object{"nick": formed(object{"nick": "Ann"}), "sure": formed(object{"sure": true})}}))
	for next(); now.Status != "completed"; next() {
	}
	assert.Equal(t, "Ann: true", now.Result.text())
}

func TestListenToTasksIsBounded(t *testing.T) {
	r := newTaskRig(t)
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%022d", i)
	}
	m := r.send(listenFor(1, object{"taskIds": ids}).with(withTasks))
	assert.Equal(t, 400, m.status)
	assert.Equal(t, -32602, m.code())
	assert.Contains(t, m.Error.Message, "taskIds")
	l := r.listen(listenFor(1, object{"taskIds": ids[:100]}).with(withTasks))
	assert.NotContains(t, string(l.must("1", acknowledged)), "taskIds")
	for name, ids := range map[string]any{"a string": "x", "numbers": []int{1}, "an object": object{}} {
		m := r.send(listenFor(1, object{"taskIds": ids}).with(withTasks))
		assert.Equal(t, 400, m.status, name)
		assert.Equal(t, -32602, m.code(), name)
	}
}

// Who goes leaves nothing behind that watches.
func TestListenToTasksLeavesNothing(t *testing.T) {
	r := newTaskRig(t)
	id := r.begin(callTool("both", nil)).TaskID
	r.until(id, "input_required")
	watching := func() int {
		b := make([]byte, 1<<20)
		return strings.Count(string(b[:runtime.Stack(b, true)]), ".follow(")
	}
	l := r.listen(listenFor(1, object{"taskIds": []string{id}}).with(withTasks))
	l.must("1", acknowledged)
	l.news("1")
	require.Positive(t, watching())
	l.close()
	require.Eventually(t, func() bool { return watching() == 0 }, time.Minute, 10*time.Millisecond)
	r.ack(taskRequest("cancel", id))
}
