package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// listed are the user's tasks.
func (c *legacyClient) listed() (list []legacyTask) {
	c.t.Helper()
	var page struct{ Tasks []json.RawMessage }
	require.NoError(c.t, json.Unmarshal(parseLegacy(c.t, c.ask(methodCall(1, "tasks/list", "{}"))).Result, &page))
	for _, raw := range page.Tasks {
		list = append(list, readLegacyTask(c.t, raw))
	}
	return list
}

func keyedCall(id int, tool, key string) string {
	return methodCall(id, "tools/call", fmt.Sprintf(`{"name":%q,"_meta":{"io.github.mcpsaga/idempotencyKey":%q}}`, tool, key))
}

// What a call says and answers is the same whether its work is a task or not.
func TestPlainCallsAreAsEver(t *testing.T) {
	w := new(world)
	tools := func(mode saga.TaskMode) []saga.Definition {
		info := func(name string, asks ...steps.Question) saga.Info {
			return saga.Info{Name: name, Asks: asks, Tasks: saga.Tasks{Mode: mode}}
		}
		held := &saga.Effect[empty, empty]{
			Name: "hold",
			Do:   func(context.Context, saga.Key, empty) (empty, error) { w.note("+"); return empty{}, nil },
			Undo: func(context.Context, saga.Performed[empty, empty]) error { w.note("-"); return nil },
		}
		holding := info("hold", legacyForm)
		holding.Effects = []saga.Declared{held}
		return []saga.Definition{
			saga.Flow[empty, string]{Info: info("fails"), Run: func(*saga.Run, empty) (string, error) { return "", saga.Failf("it went wrong") }},
			saga.Flow[empty, string]{Info: info("breaks"), Run: func(*saga.Run, empty) (string, error) { panic("a secret") }},
			saga.Flow[empty, sum]{Info: info("sum"), Run: func(*saga.Run, empty) (sum, error) { return sum{3}, nil }},
			saga.Flow[empty, string]{Info: info("ask", legacyForm, legacySample), Run: func(r *saga.Run, _ empty) (string, error) {
				name, err := saga.Ask(r, legacyForm)
				if err != nil {
					return "", err
				}
				r.Progress(1, 2, "half")
				return "Hello, " + name.Name, nil
			}},
			saga.Flow[empty, string]{Info: holding, Run: func(r *saga.Run, _ empty) (string, error) {
				if _, err := saga.Do(r, held, empty{}); err != nil {
					return "", err
				}
				name, err := saga.Ask(r, legacyForm)
				return name.Name, err
			}},
			saga.Flow[empty, string]{Info: info("model", legacySample), Run: func(r *saga.Run, _ empty) (string, error) {
				_, err := saga.Ask(r, legacySample)
				return "sampled", err
			}},
		}
	}
	answers := map[string]string{
		"accept": `{"action":"accept","content":{"name":"Jo"}}`, "decline": `{"action":"decline"}`, "nonsense": `{"action":"accept","content":{"name":7}}`, "error": "",
	}
	calls := []struct{ tool, args, answer, capabilities string }{
		{"fails", "{}", "", everything}, {"breaks", "{}", "", everything}, {"sum", "{}", "", everything}, {"sum", `{"x":1}`, "", everything},
		{"ask", "{}", "accept", everything}, {"ask", "{}", "decline", everything}, {"ask", "{}", "nonsense", everything}, {"ask", "{}", "error", everything},
		{"hold", "{}", "accept", everything}, {"hold", "{}", "decline", everything}, {"hold", "{}", "error", everything},
		{"ask", "{}", "", `{}`}, {"model", "{}", "", `{"elicitation":{}}`},
	}
	play := func(r *rig, version string) (said []string) {
		for _, call := range calls {
			c := r.connect(version, call.capabilities, func(c *legacyClient) { c.header.Set("User", "ann") })
			resp := c.post(toolCall(5, call.tool, call.args))
			if resp.Header.Get("Content-Type") == "application/json" {
				said = append(said, fmt.Sprintf("%s: %s", call.tool, readAll(t, resp)))
				continue
			}
			s := c.read(resp)
			for {
				m := s.message()
				if m.Method == "" {
					said = append(said, fmt.Sprintf("%s: %s", call.tool, m.data))
					break
				}
				said = append(said, fmt.Sprintf("%s: %s %s", call.tool, m.Method, m.Params))
				if m.ID == nil {
					continue
				} else if answer := answers[call.answer]; answer == "" {
					c.fail(m.ID, -1, "no")
				} else {
					c.reply(m.ID, answer)
				}
			}
		}
		return append(said, w.was())
	}
	for _, version := range []string{"2025-11-25", "2025-06-18", "2024-11-05"} {
		var said [2][]string
		for i, mode := range []saga.TaskMode{saga.TasksForbidden, saga.TasksOptional} {
			w.done = nil
			said[i] = play(newTaskRig(t, func(o *server.Options) { o.Tools, o.Questions = tools(mode), unasked }), version)
		}
		assert.Equal(t, said[0], said[1], version)
	}
}

// A tool that must be a task is neither shown to nor called by clients that could not know of tasks.
func TestPlainCallsOfRequiredTasks(t *testing.T) {
	r := newTaskRig(t)
	c := r.user("ann", "2025-06-18")
	assert.NotContains(t, c.ask(methodCall(1, "tools/list", "{}")), `"name":"after"`)
	code, said := c.refused(toolCall(2, "after", `{}`))
	assert.Equal(t, -32600, code)
	assert.Contains(t, said, "asyncTools")
}

func TestPlainCallCancelled(t *testing.T) {
	w := new(world)
	r := newTaskRig(t, func(o *server.Options) { o.Tools = []saga.Definition{roundsTool(w)} })
	c := r.user("ann", "2025-11-25")
	s := c.stream(roundsCall(4, 3, "I"))
	s.wait("elicitation/create")
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	until(t, func() bool { return w.was() == "+ -" })
}

// A client that is gone has not cancelled anything: the task waits, and is found again.
func TestPlainCallLost(t *testing.T) {
	r := newTaskRig(t)
	c, other := r.user("ann", "2025-11-25"), r.user("ann", "2025-11-25")
	c.stream(keyedCall(4, "twice", "k")).wait("elicitation/create")
	resp := c.request(http.MethodDelete, "", nil)
	assert.Equal(t, 204, resp.StatusCode)
	resp.Body.Close()
	s := other.stream(keyedCall(9, "twice", "k"))
	other.reply(s.wait("elicitation/create").ID, `{"action":"accept","content":{"sure":true}}`)
	other.reply(s.wait("elicitation/create").ID, `{"action":"accept","content":{"sure":true}}`)
	said, _ := text(t, s.wait("").Result)
	assert.Equal(t, "sure enough", said)
	// The same call later: the same result.
	again := parseLegacy(t, other.ask(keyedCall(10, "twice", "k")))
	said, _ = text(t, again.Result)
	assert.Equal(t, "sure enough", said)
	assert.Empty(t, other.listed(), "calls are no tasks to their clients")
}

// A call waits at one replica for what another one does, and either may be answered.
func TestPlainCallOnTwoReplicas(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	keys := newKeys(t)
	both := func(o *server.Options) { o.Ledger, o.Keys = store, keys }
	first, second := newTaskRig(t, both), newTaskRig(t, both)
	c, other := first.user("ann", "2025-11-25"), second.user("ann", "2025-11-25")
	s := c.stream(keyedCall(4, "twice", "k"))
	ask := s.wait("elicitation/create")
	s2 := other.stream(keyedCall(4, "twice", "k"))
	ask2 := s2.wait("elicitation/create")
	c.reply(ask.ID, `{"action":"accept","content":{"sure":true}}`)
	back, next := s2.message(), s2.message() // in any order
	if back.ID != nil {
		back, next = next, back
	}
	assert.Contains(t, back.data, `notifications/cancelled","params":{"requestId":`+string(ask2.ID))
	s.close()
	other.reply(next.ID, `{"action":"accept","content":{"sure":true}}`)
	said, _ := text(t, s2.wait("").Result)
	assert.Equal(t, "sure enough", said)
}

// A server that stops tells clients that cannot come back to call again; what is not known again
// is undone, and what is goes on.
func TestPlainCallOfServerThatStops(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := new(world)
		hold := &saga.Effect[empty, empty]{
			Name: "hold",
			Do:   func(context.Context, saga.Key, empty) (empty, error) { w.note("+"); return empty{}, nil },
			Undo: func(context.Context, saga.Performed[empty, empty]) error { w.note("-"); return nil },
		}
		r := tasksReplicas(t, 2, func(o *server.Options) {
			o.Tools = []saga.Definition{saga.Flow[empty, string]{
				Info: saga.Info{Name: "hold", Asks: []steps.Question{legacySample}, Effects: []saga.Declared{hold}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
				Run: func(r *saga.Run, _ empty) (string, error) {
					if _, err := saga.Do(r, hold, empty{}); err != nil {
						return "", err
					}
					_, err := saga.Ask(r, legacySample)
					return "held", err
				},
			}}
		})
		c, other := r[0].user("ann", "2024-11-05"), r[1].user("ann", "2024-11-05")
		known, unknown := c.stream(keyedCall(4, "hold", "k")), c.stream(toolCall(5, "hold", "{}"))
		known.wait("sampling/createMessage")
		unknown.wait("sampling/createMessage")
		r[0].srv.CloseStreams()
		for _, s := range []*sseReader{known, unknown} {
			for m := s.message(); ; m = s.message() {
				if m.Method == "" {
					require.NotNil(t, m.Error)
					assert.Contains(t, m.Error.Message, "call again")
					break
				}
			}
		}
		until(t, func() bool { return w.was() == "+ + -" })
		s := other.stream(keyedCall(6, "hold", "k"))
		other.reply(s.wait("sampling/createMessage").ID, yes)
		said, _ := text(t, s.wait("").Result)
		assert.Equal(t, "held", said)
		assert.Equal(t, "+ + -", w.was())
	})
}

// newTaskPipe is a client of 2025-11-25 on a pair of pipes.
func newTaskPipe(t *testing.T, change ...func(*server.Options)) *legacyPipe {
	t.Helper()
	r := newTaskRig(t, append(change, noUsers)...)
	return newLegacyPipeTo(t, "2025-11-25", r.srv)
}

func TestTasksOnPipes(t *testing.T) {
	c := newTaskPipe(t)
	// As all do that have much to say, the client reads while it writes.
	lines, sent := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(sent)
		for line := range lines {
			c.send(line)
		}
	}()
	defer func() { close(lines); <-sent }()
	send := func(line string) { lines <- line }
	send(taskCall(1, "both", "{}", `{"ttl":60000}`))
	var created struct{ Task json.RawMessage }
	require.NoError(t, json.Unmarshal(c.message().Result, &created))
	task := readLegacyTask(t, created.Task)
	assert.Equal(t, int64(60000), *task.TTL)
	// Whoever waits does not keep others from being heard, however many they are.
	const many = 100
	for i := range many {
		send(aboutTask(100+i, "result", task.TaskID))
	}
	asked, ended, answered := 0, 0, false
	for ended < many {
		switch m := c.message(); {
		case m.Method == "elicitation/create":
			assert.Equal(t, task.TaskID, relatedTo(t, m.Params))
			asked++
			if asked == 2*many {
				send(methodCall(2, "ping", "{}"))
			}
			if answered {
				continue
			}
			answer := `{"action":"accept","content":{"sure":true}}`
			if strings.Contains(string(m.Params), "call you") {
				answer = `{"action":"accept","content":{"nick":"Jo"}}`
			}
			if asked > many { // the first ones are not answered until all wait
				send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + answer + `}`)
			}
		case m.Method == "":
			if string(m.ID) == "2" {
				continue
			}
			said, _ := text(t, m.Result)
			assert.Equal(t, "Jo: true", said)
			ended++
		}
	}
}

// Cancelled, a call on pipes cancels its task.
func TestPlainCallCancelledOnPipes(t *testing.T) {
	w := new(world)
	c := newTaskPipe(t, func(o *server.Options) { o.Tools = []saga.Definition{roundsTool(w)} })
	c.send(roundsCall(3, 1, "I"))
	for m := c.message(); m.Method != "elicitation/create"; m = c.message() {
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	assert.Equal(t, "notifications/cancelled", c.message().Method)
	until(t, func() bool { return w.was() == "+ -" })
}

// talkative tells of all that it does.
var talkative = saga.Flow[empty, string]{
	Info: saga.Info{Name: "talk", Asks: []steps.Question{legacyForm}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
	Run: func(r *saga.Run, _ empty) (string, error) {
		r.Progress(1, 2, "half")
		r.Log(slog.LevelDebug, "a detail")
		r.Log(slog.LevelError, "a problem")
		if _, err := saga.Ask(r, legacyForm); err != nil {
			return "", err
		}
		r.Progress(2, 2, "done")
		return "talked", nil
	},
}

// What a task tells reaches whoever waits for it, with the progressToken of the call, and as much
// of the log as the client wants.
func TestTasksTell(t *testing.T) {
	r := newTaskRig(t, func(o *server.Options) { o.Tools = []saga.Definition{talkative} })
	for name, plain := range map[string]bool{"task": false, "call": true} {
		t.Run(name, func(t *testing.T) {
			c := r.user("ann", "2025-11-25")
			c.ask(methodCall(3, "logging/setLevel", `{"level":"error"}`))
			var s *sseReader
			var task string
			if plain {
				s = c.stream(toolCall(9, "talk", "{}"))
			} else {
				m := parseLegacy(t, c.ask(methodCall(9, "tools/call", `{"name":"talk","task":{},"_meta":{"progressToken":"p9"}}`)))
				var created struct{ Task legacyTask }
				require.NoError(t, json.Unmarshal(m.Result, &created))
				task = created.Task.TaskID
				assert.Equal(t, "half", c.until(task, "input_required").StatusMessage)
				s = c.stream(aboutTask(10, "result", task))
			}
			var progress []string
			logs := 0
			for m := s.message(); ; m = s.message() {
				switch m.Method {
				case "notifications/progress":
					var p struct {
						Token    string `json:"progressToken"`
						Progress float64
						Message  string
					}
					require.NoError(t, json.Unmarshal(m.Params, &p))
					assert.Equal(t, "p9", p.Token)
					progress = append(progress, fmt.Sprint(p.Progress, p.Message))
				case "notifications/message":
					assert.Contains(t, string(m.Params), "a problem")
					logs++
				case "elicitation/create":
					c.reply(m.ID, `{"action":"accept","content":{"name":"Jo"}}`)
				case "notifications/tasks/status":
					assert.Equal(t, task, readLegacyTask(t, m.Params).TaskID)
					continue
				case "":
					said, _ := text(t, m.Result)
					assert.Equal(t, "talked", said)
					assert.Equal(t, task, relatedTo(t, m.Result))
					assert.Equal(t, []string{"1half", "2done"}, progress)
					assert.Equal(t, 2, logs, "a flow says it again when it goes on")
					return
				}
				assert.Equal(t, task, relatedTo(t, m.Params), m.data)
			}
		})
	}
}

// What a task yields begins its result, where nobody can have it earlier. A plain call is read part by
// part, as from any tool that yields.
func TestTasksYield(t *testing.T) {
	r := newTaskRig(t, func(o *server.Options) { o.Tools = []saga.Definition{inParts} })
	c := r.user("ann", "2025-11-25")
	task := c.create("parts", "{}")
	said, _ := text(t, parseLegacy(t, c.ask(aboutTask(2, "result", task.TaskID))).Result)
	assert.Equal(t, "one\ntwo\nthree", said)
	said, _ = text(t, parseLegacy(t, c.ask(toolCall(1, "parts", "{}"))).Result)
	assert.True(t, strings.HasPrefix(said, "one\nThere is more."), said)
}
