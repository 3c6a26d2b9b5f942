package server_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Tasks as docs/tasks.md shows them, in each of MCP's two ways.

// backupTool is a tool that asks in the middle of a task.
func backupTool() saga.Definition {
	type place struct {
		Bucket string `json:"bucket"`
	}
	where := &steps.Form[place]{ID: "where", Message: "Where shall the backup go?"}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "backup", Asks: []steps.Question{where}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			to, err := saga.Ask(r, where)
			return "42 files are in " + to.Bucket + ".", err
		},
	}
}

// taskTranscript records what is said. What differs each time has names of its own in it.
type taskTranscript struct {
	strings.Builder
	names map[string]string
}

func (w *taskTranscript) say(arrow, message string) {
	message = regexp.MustCompile(`"(createdAt|lastUpdatedAt)":"[^"]*"`).ReplaceAllString(strings.TrimSpace(message), `"$1":"2026-11-22T12:00:00.000Z"`)
	for from, to := range w.names {
		message = strings.ReplaceAll(message, from, to)
	}
	w.WriteString(arrow + " " + message + "\n")
}

func (w *taskTranscript) compare(t *testing.T, name string) {
	t.Helper()
	name = "../testdata/transcripts/" + name
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(w.String()), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), w.String(), "go test ./server -run Transcript -update writes it anew")
}

func newTranscriptRig(t *testing.T) (*rig, *taskTranscript) {
	r := newTaskRig(t, func(o *server.Options) {
		o.Name, o.Version, o.Tools = "example", "1.0.0", []saga.Definition{backupTool()}
	})
	return r, &taskTranscript{names: map[string]string{}}
}

func TestTaskTranscript(t *testing.T) {
	r, w := newTranscriptRig(t)
	w.WriteString("# A task of MCP 2026-07-28 (SEP-2663). TASK stands for its id.\n")
	send := func(q *request) response {
		m := r.send(q)
		if id := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(m.raw); id != nil {
			w.names[id[1]] = "TASK"
		}
		w.say("→", q.body())
		w.say("←", m.raw)
		return m
	}
	declared := object{"elicitation": object{}, "extensions": object{tasksExtension: object{}}}
	id := readTask(t, send(callTool("backup", object{}).with(declared)).Result).TaskID
	r.until(id, "input_required")
	send(taskRequest("get", id).with(declared))
	send(taskRequest("update", id, object{"inputResponses": object{"where": formed(object{"bucket": "attic"})}}).with(declared))
	r.until(id, "completed")
	send(taskRequest("get", id).with(declared))
	send(taskRequest("cancel", id).with(declared))
	w.compare(t, "tasks-2026-07-28.txt")
}

func TestTaskTranscriptBefore2026(t *testing.T) {
	r, w := newTranscriptRig(t)
	w.WriteString("# A task in a session of MCP 2025-11-25. TASK stands for its id. What it asks is sent on the stream of tasks/result.\n")
	c := r.user("ann", "2025-11-25")
	ask := func(message string) string {
		got := c.ask(message)
		if id := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(got); id != nil {
			w.names[id[1]] = "TASK"
		}
		w.say("→", message)
		w.say("←", got)
		return got
	}
	created := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(ask(taskCall(1, "backup", `{}`, `{"ttl":3600000}`)))
	require.NotNil(t, created)
	id := created[1]
	c.until(id, "input_required")
	ask(aboutTask(2, "get", id))
	message := aboutTask(3, "result", id)
	w.say("→", message)
	s := c.stream(message)
	asked := s.wait("elicitation/create")
	w.names[string(asked.ID)] = "1001"
	w.say("←", asked.data)
	answer := `{"action":"accept","content":{"bucket":"attic"}}`
	w.say("→", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, answer))
	c.reply(asked.ID, answer)
	w.say("←", s.wait("").data)
	require.Eventually(t, func() bool { return c.task(id).Status == "completed" }, time.Minute, 5*time.Millisecond)
	ask(methodCall(4, "tasks/list", `{}`))
	w.compare(t, "tasks-2025-11-25.txt")
}
