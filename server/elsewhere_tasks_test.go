package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// onlyTasks declares nothing but that extension.
var onlyTasks = object{"extensions": object{tasksExtension: object{}}}

// askingTask is a task that somebody who cannot be asked has begun.
type askingTask struct {
	id string
	// message waits until a text is in the message of the status, which is working, and returns the message.
	message func(text string) string
	// call calls the tool.
	call func(args object) json.RawMessage
	// ended waits for the end, and returns the text of the result.
	ended  func() string
	cancel func()
}

// askingTasks begin a task of a tool as ann in both protocols.
var askingTasks = map[string]func(r *rig, tool string) askingTask{
	"MCP 2026-07-28": func(r *rig, tool string) askingTask {
		r.t.Helper()
		send := func(q *request) response {
			q.header.Set("User", "ann")
			return r.send(q.with(onlyTasks))
		}
		get := func(id string) taskShown { return readTask(r.t, send(taskRequest("get", id)).Result) }
		m := send(callTool(tool, nil))
		require.Equal(r.t, "task", m.result(r.t).ResultType, m.raw)
		id := jsontest.Get(m.raw, "result.taskId").String()
		return askingTask{
			id: id,
			message: func(text string) string {
				return messageOf(r, text, func() (string, string) { s := get(id); return s.Status, s.StatusMessage })
			},
			call: func(args object) json.RawMessage { return send(callTool(tool, args)).Result },
			ended: func() string {
				var s taskShown
				until(r.t, func() bool { s = get(id); return s.Status != "working" })
				if s.Result == nil {
					return fmt.Sprint(s.Status, ": ", s.StatusMessage)
				}
				return s.Result.text()
			},
			cancel: func() { send(taskRequest("cancel", id)) },
		}
	},
	"MCP 2025-11-25": func(r *rig, tool string) askingTask {
		r.t.Helper()
		c := r.connect("2025-11-25", `{}`, func(c *legacyClient) { c.header.Set("User", "ann") })
		begun := c.create(tool, "{}")
		n := 10
		call := func(name, params string) json.RawMessage {
			n++
			m := parseLegacy(r.t, c.ask(methodCall(n, name, params)))
			require.Nil(r.t, m.Error, "%+v", m.Error)
			return m.Result
		}
		return askingTask{
			id: begun.TaskID,
			message: func(text string) string {
				return messageOf(r, text, func() (string, string) {
					s := c.task(begun.TaskID)
					return s.Status, s.StatusMessage
				})
			},
			call: func(args object) json.RawMessage {
				raw, err := json.Marshal(object{"name": tool, "arguments": args})
				require.NoError(r.t, err)
				return call("tools/call", string(raw))
			},
			ended: func() string {
				return saidBy(r.t.(*testing.T), call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, begun.TaskID))).Content[0].Text
			},
			cancel: func() { call("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, begun.TaskID)) },
		}
	},
}

func messageOf(r *rig, text string, get func() (status, message string)) (last string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		status, message := get()
		require.Equal(r.t, "working", status, message)
		last = message
		return strings.Contains(message, text)
	}, time.Minute, 5*time.Millisecond, "%s", text)
	return last
}

// asTask is a tool that may be, or has to be, a task.
func asTask(tool saga.Flow[struct{}, string], mode saga.TaskMode) saga.Flow[struct{}, string] {
	tool.Tasks = saga.Tasks{Mode: mode, Poll: 250 * time.Millisecond, TTL: time.Hour}
	return tool
}

// A task of a client that cannot ask says in its status what is asked and where, and goes on when that is answered: by the
// model, or on the page, which is the only way for a consent.
func TestTasksOfClientsThatCannotAsk(t *testing.T) {
	for _, mode := range []saga.TaskMode{saga.TasksOptional, saga.TasksRequired} {
		for name, begin := range askingTasks {
			t.Run(fmt.Sprint(mode, ", ", name), func(t *testing.T) {
				s := new(seats)
				r := newPagesRig(t, offering(asTask(s.consenting(), mode)))
				task := begin(r, "seat")
				message := task.message(`Question "row"`)
				assert.Contains(t, message, `"seat" is not finished: it waits for an answer of the user.`)
				assert.Contains(t, message, "resumeToken: "+task.id)
				assert.Contains(t, message, "the task continues")

				refused := saidBy(t, task.call(object{"resumeToken": task.id, "answers": object{"row": object{"row": 7}}}))
				assert.True(t, refused.IsError)
				assert.Contains(t, refused.Content[0].Text, "does not fit")
				next := waitsOf(t, task.call(object{"resumeToken": task.id, "answers": object{"row": object{"row": "7"}}}))
				if next.Status == "working" {
					task.message("Only the user")
					next = waitsOf(t, task.call(object{"resumeToken": task.id}))
				}
				assert.Equal(t, "waiting", next.Status)
				again := waitsOf(t, task.call(object{"resumeToken": task.id, "answers": object{"sure": object{"sure": true}}}))
				assert.Contains(t, again.Message, "must be answered by a person, not by a model")
				message = task.message("Only the user")
				require.NotEmpty(t, next.URL)
				assert.Contains(t, message, next.URL)
				assert.NotContains(t, message, "answers:")

				p := r.page(next.URL)
				shows(t, p, "Sure?")
				done := r.answer(next.URL, p.form(t, "accept", "f0", "0"))
				shows(t, done, "Your answer was taken.")
				assert.Equal(t, "seat in 7", task.ended())
				assert.Equal(t, "seat in 7", saidBy(t, task.call(object{"resumeToken": task.id})).Content[0].Text)
				held, calls := s.now()
				assert.Equal(t, []int{1, 1}, []int{held, calls})
			})
		}
	}
}

// Who waits for the result of such a task has it when that is answered, and hears in the meantime of what is asked.
func TestResultsOfTasksThatAskElsewhere(t *testing.T) {
	s := new(seats)
	r := newPagesRig(t, offering(asTask(s.tool(), saga.TasksRequired)))
	c := r.connect("2025-11-25", `{}`, func(c *legacyClient) { c.header.Set("User", "ann") })
	id := c.create("seat", "{}").TaskID
	waiting := c.stream(aboutTask(2, "result", id))
	says := func(text string) {
		for {
			m := parseLegacy(t, waiting.message().data)
			require.Equal(t, "notifications/tasks/status", m.Method, "nothing is asked")
			shown := readLegacyTask(t, m.Params)
			assert.Equal(t, "working", shown.Status)
			if strings.Contains(shown.StatusMessage, text) {
				return
			}
		}
	}
	says(`Question "row"`)
	t.Run("the client adds task", func(t *testing.T) {
		code, text := c.refused(taskCall(3, "seat", fmt.Sprintf(`{"resumeToken":%q,"answers":{"row":{"row":7}}}`, id), "{}"))
		assert.Equal(t, -32602, code)
		assert.Contains(t, text, "does not fit")
		code, text = c.refused(taskCall(4, "seat", `{"resumeToken":"abcdefghijklmnopqrstuv"}`, "{}"))
		assert.Equal(t, -32602, code)
		assert.Contains(t, text, "not valid here")
		assert.Equal(t, id, c.create("seat", fmt.Sprintf(`{"resumeToken":%q,"answers":{"row":{"row":"7"}}}`, id)).TaskID)
	})
	says(`Question "sure"`)
	c.create("seat", fmt.Sprintf(`{"resumeToken":%q,"answers":{"sure":{"sure":true}}}`, id))
	for {
		m := parseLegacy(t, waiting.message().data)
		if m.Method == "" {
			assert.Equal(t, "seat in 7", saidBy(t, m.Result).Content[0].Text)
			assert.Equal(t, id, relatedTo(t, m.Result))
			break
		}
	}
}

// Another client of the same principal that can ask is asked as ever, and sees what the task waits for.
func TestTasksAskWhoCan(t *testing.T) {
	for name, begin := range askingTasks {
		t.Run(name, func(t *testing.T) {
			s := new(seats)
			r := newPagesRig(t, offering(asTask(s.tool(), saga.TasksRequired)))
			task := begin(r, "seat")
			task.message(`Question "row"`)
			get := taskRequest("get", task.id)
			get.header.Set("User", "ann")
			seen := readTask(t, r.send(get).Result)
			assert.Equal(t, "input_required", seen.Status)
			assert.Contains(t, seen.InputRequests, "row")
			update := taskRequest("update", task.id, object{"inputResponses": object{"row": formed(object{"row": "9"})}})
			update.header.Set("User", "ann")
			r.ack(update)
			task.message(`Question "sure"`)
			able := r.user("ann", "2025-11-25")
			assert.Equal(t, "input_required", able.task(task.id).Status)
			stream := able.stream(aboutTask(5, "result", task.id))
			for {
				m := parseLegacy(t, stream.message().data)
				if m.Method == "elicitation/create" {
					able.reply(m.ID, `{"action":"accept","content":{"sure":true}}`)
				} else if m.Method == "" {
					assert.Equal(t, "seat in 9", saidBy(t, m.Result).Content[0].Text)
					break
				}
			}
		})
	}
}

// A task that asks something for which there is no way fails before it has done anything.
func TestTasksThatNobodyCanAnswer(t *testing.T) {
	for what, tool := range map[string]saga.Flow[struct{}, string]{
		"a consent without a page": new(seats).consenting(), "a question for the client": narrowed(new(seats).tool()),
	} {
		for _, mode := range []saga.TaskMode{saga.TasksOptional, saga.TasksRequired} {
			r := newTaskRig(t, offering(asTask(tool, mode)))
			t.Run(what, func(t *testing.T) {
				m := r.send(callTool("seat", nil).with(onlyTasks))
				require.Equal(t, "task", m.result(t).ResultType, m.raw)
				failed := r.until(jsontest.Get(m.raw, "result.taskId").String(), "failed")
				assert.Equal(t, -32021, failed.Error.Code)
				assert.Contains(t, failed.StatusMessage, "needs a client with elicitation.form")
				session := r.connect("2025-11-25", `{}`, func(c *legacyClient) { c.header.Set("User", "ann") })
				begun := session.create("seat", "{}")
				session.until(begun.TaskID, "failed")
				assert.Contains(t, session.ask(aboutTask(1, "result", begun.TaskID)), "this client has not declared elicitation.form")
			})
		}
	}
}

// narrowed is a tool whose questions only clients may ask.
func narrowed(tool saga.Flow[struct{}, string]) saga.Flow[struct{}, string] {
	tool.Routes = steps.RouteClient
	return tool
}

// A task that asks elsewhere is undone when it is cancelled, by its protocol or on the page, and when its time is over.
func TestTasksThatAskElsewhereAreUndone(t *testing.T) {
	for name, begin := range askingTasks {
		for _, way := range []string{"cancelled", "stopped on the page", "given up by the model", "abandoned"} {
			t.Run(name+", "+way, func(t *testing.T) {
				s := new(seats)
				tool := asTask(s.tool(), saga.TasksRequired)
				if way == "abandoned" {
					tool.Tasks.TTL = 2 * time.Second
				}
				r := newPagesRig(t, offering(tool))
				task := begin(r, "seat")
				task.message(`Question "row"`)
				w := waitsOf(t, task.call(object{"resumeToken": task.id, "answers": object{"row": object{"row": "7"}}}))
				until(t, func() bool { held, _ := s.now(); return held == 1 })
				switch way {
				case "cancelled":
					task.cancel()
				case "stopped on the page":
					p := r.page(w.URL)
					r.answer(w.URL, p.form(t, "stop"))
				case "given up by the model":
					task.call(object{"resumeToken": task.id, "answers": "cancel"})
				}
				until(t, func() bool { held, _ := s.now(); return held == 0 })
				assert.NotContains(t, task.ended(), "seat in")
			})
		}
	}
}

// Only those clients see the arguments that go on with a task whose tasks ask elsewhere.
func TestListsOfTasksThatAskElsewhere(t *testing.T) {
	r := newPagesRig(t, offering(asTask(new(seats).tool(), saga.TasksRequired)))
	shows := func(raw string) bool { return strings.Contains(raw, `"resumeToken"`) }
	list := func(capabilities object) string {
		return r.send(modernRequest("tools/list", nil).with(capabilities)).raw
	}
	assert.True(t, shows(list(onlyTasks)))
	assert.False(t, shows(list(withTasks)))
	assert.False(t, shows(list(object{})))
	const ask = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	assert.True(t, shows(r.connect("2025-11-25", `{}`).ask(ask)))
	assert.False(t, shows(r.connect("2025-06-18", `{}`).ask(ask)))
	assert.False(t, shows(r.user("ann", "2025-11-25").ask(ask)))
}

// A form in the window of a client that begins a task finds what that asks, and the task ends when it is answered there.
func TestFormsAnswerTasks(t *testing.T) {
	r := newRig(t, server.Options{Ledger: inMemory(t), Authenticate: calledBy, Tools: []saga.Definition{asTask(new(seats).tool(), saga.TasksRequired)}})
	extensions := object{tasksExtension: object{}, "io.modelcontextprotocol/ui": showsApps["extensions"].(object)["io.modelcontextprotocol/ui"]}
	q := callTool("seat", nil).with(object{"extensions": extensions})
	ann := by("ann")
	ann(q)
	id := jsontest.Get(r.send(q).raw, "result.taskId").String()
	require.NotEmpty(t, id)
	listen := listenFor(1, object{"taskIds": []string{id}}).with(object{"extensions": extensions})
	ann(listen)
	heard := r.listen(listen)
	heard.must("1", acknowledged)
	var f inForm
	for n, id := range []string{"row", "sure"} {
		until(t, func() bool {
			f = r.form(object{"frame": "1", "tool": "seat"}, ann)
			return len(f.Questions) == 1 && f.Questions[0].ID == id
		})
		assert.False(t, f.Held, "no call waits for it")
		assert.Equal(t, "none", r.form(object{"frame": "2"}, by("bob")).Status)
		for n == 0 && !strings.Contains(heard.news("1").StatusMessage, "A form is shown to the user in this window.") {
		}
		content := []object{{"row": "7"}, {"sure": true}}[n]
		f = r.form(object{"frame": "1", "answers": object{id: formed(content)}}, ann)
	}
	until(t, func() bool {
		f = r.form(object{"frame": "1"}, ann)
		return f.Status == "completed"
	})
	assert.Contains(t, f.Sentence, "resumeToken: "+id)
	now := heard.news("1")
	for ; now.Status != "completed"; now = heard.news("1") {
		require.Equal(t, "working", now.Status)
	}
	assert.Equal(t, "seat in 7", now.Result.text())
}

// Only who has begun a task goes on with it, and only if it asks elsewhere.
func TestOtherTasksAreNotFollowed(t *testing.T) {
	r := newPagesRig(t, offering(asTask(new(seats).tool(), saga.TasksRequired)))
	follow := func(id, as string) toolSaid {
		q := callTool("seat", object{"resumeToken": id, "answers": object{"row": object{"row": "7"}}}).with(onlyTasks)
		q.header.Set("User", as)
		return saidBy(t, r.send(q).Result)
	}
	refused := func(said toolSaid) {
		t.Helper()
		assert.True(t, said.IsError)
		assert.Contains(t, said.Content[0].Text, "The resumeToken is not valid here")
	}
	task := askingTasks["MCP 2026-07-28"](r, "seat")
	task.message(`Question "row"`)
	refused(follow(task.id, "bob"))
	refused(follow(r.user("ann", "2025-11-25").create("seat", "{}").TaskID, "ann")) // of a client that is asked itself
	waitsOf(t, task.call(object{"resumeToken": task.id, "answers": object{"row": object{"row": "7"}}}))
}
