package server_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// retiring is a tool of a revision that holds something, and asks.
func retiring(w *world, revision uint32) saga.Definition {
	hold := &saga.Effect[empty, empty]{
		Name: "hold",
		Do:   func(context.Context, saga.Key, empty) (empty, error) { w.note("+"); return empty{}, nil },
		Undo: func(context.Context, saga.Performed[empty, empty]) error { w.note("-"); return nil },
	}
	type turn = saga.Turn[empty, empty]
	return saga.Machine[empty, empty]{
		Info: saga.Info{
			Name: "holding", Revision: revision, Asks: []steps.Question{askSure}, Effects: []saga.Declared{hold},
			Tasks: saga.Tasks{Mode: saga.TasksOptional},
		},
		Start: func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, hold, empty{}); err != nil {
				return nil, err
			}
			return t.Ask("end", askSure)
		},
		Steps: saga.Steps[empty, empty]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
}

// A saga whose revision is retired ends in the same words, and with the same report, in every protocol.
func TestRetiredRevisionsAreReportedAlike(t *testing.T) {
	sure := object{"sure": accepting(object{"sure": true})}
	// Each begins at the first server, and returns what answers at the other one and reads the result.
	for name, begin := range map[string]func(r *rig) func(r *rig) json.RawMessage{
		"a call": func(r *rig) func(*rig) json.RawMessage {
			c := r.user("ann", "2025-11-25")
			s := c.stream(toolCall(7, "holding", `{}`))
			q := s.wait("elicitation/create")
			s.close()
			return func(r *rig) json.RawMessage {
				s := c.at(r).get(q.id)
				c.at(r).reply(s.wait("elicitation/create").ID, `{"action":"accept","content":{"sure":true}}`)
				return s.wait("").Result
			}
		},
		"a task of a session": func(r *rig) func(*rig) json.RawMessage {
			c := r.user("ann", "2025-11-25")
			task := c.create("holding", `{}`)
			c.until(task.TaskID, "input_required")
			return func(r *rig) json.RawMessage {
				s := c.at(r).stream(aboutTask(7, "result", task.TaskID))
				c.at(r).reply(s.wait("elicitation/create").ID, `{"action":"accept","content":{"sure":true}}`)
				result := s.wait("").Result
				assert.Equal(t, "failed", c.at(r).task(task.TaskID).Status)
				return result
			}
		},
		"a task": func(r *rig) func(*rig) json.RawMessage {
			task := r.begin(callTool("holding", nil))
			r.until(task.TaskID, "input_required")
			return func(r *rig) json.RawMessage {
				r.ack(taskRequest("update", task.TaskID, object{"inputResponses": sure}))
				return r.until(task.TaskID, "completed").members["result"]
			}
		},
		"a round": func(r *rig) func(*rig) json.RawMessage {
			token := tokenOf(t, r.send(callTool("holding", nil).with(allCapabilities)).raw)
			return func(r *rig) json.RawMessage {
				return r.send(callTool("holding", nil).with(allCapabilities).answering(token, sure)).Result
			}
		},
		"a saga": func(r *rig) func(*rig) json.RawMessage {
			token := tokenOf(t, r.send(modernRequest("tools/callSaga", object{"name": "holding"}).with(allCapabilities)).raw)
			return func(r *rig) json.RawMessage {
				return r.send(modernRequest("tools/resumeSaga", object{"sagaToken": token, "completedSteps": []object{{"stepId": "sure", "result": sure["sure"]}}})).Result
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := new(world)
			o := server.Options{Keys: newKeys(t), Ledger: inMemory(t), Authenticate: users, Tools: []saga.Definition{retiring(w, 0)}}
			old := newRig(t, o)
			end := begin(old)
			old.srv.Close()
			o.Tools = []saga.Definition{retiring(w, 2)}
			raw := end(newRig(t, o))
			var result struct {
				IsError bool
				Content []struct{ Text string }
				Meta    map[string]json.RawMessage `json:"_meta"`
			}
			require.NoError(t, json.Unmarshal(raw, &result), string(raw))
			assert.True(t, result.IsError)
			var said []string
			for _, c := range result.Content {
				said = append(said, c.Text)
			}
			assert.Equal(t, []string{"The saga cannot go on: this version of the tool is no longer served. Start again.", "Undone: hold."}, said)
			assert.JSONEq(t, `{"undone":["hold"],"outstanding":[]}`, string(result.Meta["io.github.mcpsaga/undo"]), string(raw))
			assert.Equal(t, "+ -", w.was())
		})
	}
}
