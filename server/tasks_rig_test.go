package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

const tasksExtension = "io.modelcontextprotocol/tasks"

// withTasks declares everything, and the tasks extension.
var withTasks = object{
	"elicitation": object{"form": object{}, "url": object{}}, "sampling": object{"tools": object{}, "context": object{}}, "roots": object{},
	"extensions": object{tasksExtension: object{}},
}

type napArgs struct {
	Millis int `json:"millis,omitempty"`
}

type nickForm struct {
	Nick string `json:"nick"`
}

var (
	askNick = &steps.Form[nickForm]{ID: "nick", Message: "What shall I call you?"}
	askSure = &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
)

// taskTools are tools of every mode. The first is none for tasks.
func taskTools() []saga.Definition {
	optional := func(name string, asks []steps.Question, run func(*saga.Run) (string, error)) saga.Definition {
		return saga.Flow[struct{}, string]{
			Info: saga.Info{Name: name, Asks: asks, Tasks: saga.Tasks{Mode: saga.TasksOptional, Poll: 250 * time.Millisecond, TTL: time.Hour}},
			Run:  func(r *saga.Run, _ struct{}) (string, error) { return run(r) },
		}
	}
	both := []steps.Question{askNick, askSure}
	return []saga.Definition{
		saga.Flow[struct{}, string]{Info: saga.Info{Name: "plain"}, Run: func(*saga.Run, struct{}) (string, error) { return "done", nil }},
		saga.Flow[napArgs, string]{
			Info: saga.Info{Name: "nap", Tasks: saga.Tasks{Mode: saga.TasksOptional, Poll: 250 * time.Millisecond, TTL: time.Hour}},
			Run: func(r *saga.Run, a napArgs) (string, error) {
				r.Progress(1, 2, "asleep")
				if err := r.Sleep(time.Duration(a.Millis) * time.Millisecond); err != nil {
					return "", err
				}
				return "awake", nil
			},
		},
		optional("both", both, func(r *saga.Run) (string, error) {
			if err := r.AskAll(askNick, askSure); err != nil {
				return "", err
			}
			who, err := askNick.Answer(r)
			if err != nil {
				return "", err
			}
			sure, err := askSure.Answer(r)
			return fmt.Sprintf("%s: %t", who.Nick, sure.Sure), err
		}),
		optional("twice", []steps.Question{askSure}, func(r *saga.Run) (string, error) {
			for range 2 {
				if _, err := saga.Ask(r, askSure); err != nil {
					return "", err
				}
			}
			return "sure enough", nil
		}),
		saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "late", Tasks: saga.Tasks{Mode: saga.TasksOptional, TTL: 300 * time.Millisecond}},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				r.Progress(1, 2, "asleep")
				return "", r.Sleep(time.Hour)
			},
		},
		optional("fails", nil, func(*saga.Run) (string, error) { return "", saga.Failf("it went wrong") }),
		optional("breaks", nil, func(*saga.Run) (string, error) { panic("a secret") }),
		saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "must", Tasks: saga.Tasks{Mode: saga.TasksRequired}, Asks: []steps.Question{askSure}},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				_, err := saga.Ask(r, askSure)
				return "done", err
			},
		},
		saga.Flow[napArgs, string]{
			Info: saga.Info{Name: "after", Asks: both, Tasks: saga.Tasks{Mode: saga.TasksRequired, After: "nick"}},
			Run: func(r *saga.Run, a napArgs) (string, error) {
				if a.Millis > 0 {
					return "No time for that.", nil
				}
				who, err := saga.Ask(r, askNick)
				if err != nil {
					return "", err
				}
				_, err = saga.Ask(r, askSure)
				return "Hello, " + who.Nick + "!", err
			},
		},
	}
}

// inParts gives its result in three parts.
var inParts = saga.Flow[struct{}, string]{
	Info: saga.Info{Name: "parts", Yields: true, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
	Run: func(r *saga.Run, _ struct{}) (string, error) {
		for _, part := range []string{"one", "two"} {
			if err := r.Yield(content.Text{Text: part}); err != nil {
				return "", err
			}
		}
		return "three", nil
	},
}

// users tells callers apart by the header User.
func users(r *http.Request) (saga.Caller, error) {
	return saga.Caller{Issuer: "test", Subject: r.Header.Get("User")}, nil
}

func newTaskRig(t *testing.T, change ...func(*server.Options)) *rig {
	t.Helper()
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	o := server.Options{Tools: taskTools(), Authenticate: users, Ledger: store}
	for _, f := range change {
		f(&o)
	}
	return newRig(t, o)
}

func taskRequest(method, id string, more ...object) *request {
	params := object{"taskId": id}
	for _, m := range more {
		for k, v := range m {
			params[k] = v
		}
	}
	q := modernRequest("tasks/"+method, params).with(withTasks)
	q.header.Set("Mcp-Name", id)
	return q
}

// taskShown is a task as results and notifications have it.
type taskShown struct {
	ResultType    string
	TaskID        string
	Status        string
	StatusMessage string
	CreatedAt     string
	LastUpdatedAt string
	TTLMs         *int64
	PollMs        *int64 `json:"pollIntervalMs"`
	InputRequests map[string]struct{ Method string }
	Result        *modernResult
	Error         *struct {
		Code    int
		Message string
	}

	members map[string]json.RawMessage
}

var isoTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// readTask reads a task and checks what is true of every one.
func readTask(t testing.TB, raw json.RawMessage) taskShown {
	t.Helper()
	require.NotNil(t, raw)
	var s taskShown
	require.NoError(t, json.Unmarshal(raw, &s), string(raw))
	require.NoError(t, json.Unmarshal(raw, &s.members))
	require.Regexp(t, `^([A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{43})$`, s.TaskID, string(raw))
	for _, at := range []string{s.CreatedAt, s.LastUpdatedAt} {
		require.Regexp(t, isoTime, at)
	}
	require.LessOrEqual(t, s.CreatedAt, s.LastUpdatedAt)
	require.Contains(t, s.members, "ttlMs")
	if s.TTLMs != nil {
		require.Positive(t, *s.TTLMs)
	}
	if s.PollMs != nil {
		require.Positive(t, *s.PollMs)
	}
	for member, status := range map[string]string{"inputRequests": "input_required", "result": "completed", "error": "failed"} {
		_, there := s.members[member]
		wanted := s.Status == status && s.ResultType != "task"
		require.Equal(t, wanted, there, "%s in %s", member, raw)
	}
	for _, never := range []string{"requestState", "ttl", "pollInterval", "task", "cacheScope"} {
		require.NotContains(t, s.members, never)
	}
	return s
}

// begin creates a task, which is there as soon as its result is.
func (r *rig) begin(q *request) taskShown {
	r.t.Helper()
	m := r.send(q.with(withTasks))
	require.Equal(r.t, 200, m.status, m.raw)
	s := readTask(r.t, m.Result)
	require.Equal(r.t, "task", s.ResultType)
	require.Contains(r.t, s.members, "_meta")
	return s
}

func (r *rig) task(id string) taskShown {
	r.t.Helper()
	m := r.send(taskRequest("get", id))
	s := readTask(r.t, m.Result)
	require.Equal(r.t, "complete", s.ResultType)
	require.Equal(r.t, id, s.TaskID)
	return s
}

// until waits until the task has the status.
func (r *rig) until(id, status string) taskShown {
	r.t.Helper()
	var s taskShown
	require.Eventually(r.t, func() bool { s = r.task(id); return s.Status == status }, time.Minute, 5*time.Millisecond, "%s", status)
	return s
}

// ack demands the empty acknowledgement.
func (r *rig) ack(q *request) {
	r.t.Helper()
	m := r.send(q)
	require.Equal(r.t, 200, m.status, m.raw)
	var members map[string]json.RawMessage
	require.NoError(r.t, json.Unmarshal(m.Result, &members), m.raw)
	assert.JSONEq(r.t, `"complete"`, string(members["resultType"]))
	assert.Contains(r.t, members, "_meta")
	assert.Len(r.t, members, 2, m.raw)
}

func formed(content object) object { return object{"action": "accept", "content": content} }

// noUsers is for connections that nobody authenticates.
func noUsers(o *server.Options) { o.Authenticate = nil }
