package server_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// notForClients are tools and servers whose questions no client may answer.
var notForClients = map[string]func(o *server.Options, tool saga.Flow[struct{}, string]){
	"the author's routes": func(o *server.Options, tool saga.Flow[struct{}, string]) {
		tool.Routes = steps.RoutePage
		o.Tools = []saga.Definition{tool}
	},
	"the operator's routes": func(o *server.Options, tool saga.Flow[struct{}, string]) {
		o.Tools, o.Questions.Force = []saga.Definition{tool}, steps.RoutePage
	},
}

const notByClients = "may not be answered by the client"

// Where a dialect cannot ask elsewhere, a tool whose question is not for clients is refused before it begins.
func TestQuestionsThatAreNotForClients(t *testing.T) {
	asks := object{"elicitation": object{}}
	for name, narrow := range notForClients {
		for _, remembers := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", ledger ", remembers), func(t *testing.T) {
				s, o := new(seats), server.Options{}
				if narrow(&o, s.holdsFirst().(saga.Flow[struct{}, string])); remembers {
					o.Ledger = inMemory(t)
				}
				r := newRig(t, o)
				assert.Contains(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"seat","arguments":{}}}`), notByClients)
				assert.Contains(t, r.send(callTool("seat", nil).with(asks)).raw, notByClients)
				ahead := callTool("seat", nil).with(asks)
				ahead.params["inputResponses"] = object{"row": formed(object{"row": "7"})}
				assert.Contains(t, r.send(ahead).raw, notByClients)
				for _, version := range []string{"2025-11-25", "2025-03-26"} {
					assert.Contains(t, r.connect(version, `{"elicitation":{}}`).ask(toolCall(3, "seat", "{}")), notByClients)
				}
				_, calls := s.now()
				assert.Zero(t, calls, "nothing has begun")
			})
		}
	}
}

// A task whose question is not for clients asks it elsewhere also of a client that could ask, and takes no answer of that.
func TestTasksTakeNoAnswersThatAreNotForClients(t *testing.T) {
	for name, narrow := range notForClients {
		t.Run(name, func(t *testing.T) {
			s := new(seats)
			r := newPagesRig(t, func(o *server.Options) { narrow(o, asTask(s.tool(), saga.TasksRequired)) })
			caps := object{"elicitation": object{}, "extensions": object{tasksExtension: object{}}}
			send := func(q *request) response {
				q.header.Set("User", "ann")
				return r.send(q.with(caps))
			}
			m := send(callTool("seat", nil))
			id := jsontest.Get(m.raw, "result.taskId").String()
			require.NotEmpty(t, id, m.raw)
			var shown taskShown
			until(t, func() bool {
				shown = readTask(t, send(taskRequest("get", id)).Result)
				return shown.StatusMessage != ""
			})
			assert.Equal(t, "working", shown.Status)
			assert.Empty(t, shown.InputRequests)
			lie := send(taskRequest("update", id, object{"inputResponses": object{"row": formed(object{"row": "8"})}}))
			assert.Contains(t, lie.raw, notByClients)

			c := r.connect("2025-11-25", `{"elicitation":{}}`, func(c *legacyClient) { c.header.Set("User", "ann") })
			begun := c.create("seat", "{}").TaskID
			until(t, func() bool { return c.task(begun).StatusMessage != "" })
			assert.Equal(t, "working", c.task(begun).Status)

			call := send(callTool("seat", object{"resumeToken": id}))
			link := waitsOf(t, call.Result).URL
			next := r.answer(link, r.page(link).form(t, "accept", "f0", "7"))
			shows(t, r.answer(link, next.form(t, "accept", "f0", "0")), "The tool has completed.")
			held, calls := s.now()
			assert.Equal(t, []int{1, 1}, []int{held, calls})
		})
	}
}
