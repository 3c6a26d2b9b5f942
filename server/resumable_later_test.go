package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// withWork has tools that may not be tasks: "work" works for a while and then asks.
func withWork(o *server.Options) {
	o.Tools = legacyDefinitions(saga.Flow[napArgs, string]{
		Info: saga.Info{Name: "work", Asks: []steps.Question{askSure}},
		Run: func(r *saga.Run, a napArgs) (string, error) {
			select {
			case <-r.Done():
				return "", context.Cause(r)
			case <-time.After(time.Duration(a.Millis) * time.Millisecond): //sagavet:ignore it is the work
			}
			_, err := saga.Ask(r, askSure)
			return "sure enough", err
		},
	})
}

// Any request that has taken two seconds can be resumed, in another session at another replica.
func TestResumeWhatIsNoTask(t *testing.T) {
	t.Parallel()
	const form = `{"action":"accept","content":{"name":"Ada"}}`
	for name, c := range map[string]struct {
		request, answer string
		asksLate        bool // only after it can be resumed
		says            string
	}{
		"a tool that works":     {request: toolCall(7, "work", `{"millis":2300}`), answer: yesSure, asksLate: true, says: "sure enough"},
		"a tool that waits":     {request: toolCall(7, "work", `{}`), answer: yesSure, says: "sure enough"},
		"a prompt that waits":   {request: methodCall(7, "prompts/get", `{"name":"greeting","arguments":{"name":"Bo"}}`), answer: form, says: "Bo greets Ada"},
		"a resource that waits": {request: methodCall(7, "resources/read", `{"uri":"notes://ask"}`), answer: form, says: `"uri":"notes://ask"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				r := tasksReplicas(t, 2, withWork)
				client := r[0].resumer("ann", "2025-11-25")
				began := time.Now()
				s := client.stream(c.request)
				if !c.asksLate {
					s.wait("elicitation/create")
				}
				p := s.policy()
				assert.GreaterOrEqual(t, time.Since(began), 1900*time.Millisecond)
				assert.JSONEq(t, "7", string(p.RequestID))
				assert.Equal(t, 600, p.MaxWait)
				s.close()
				r[0].srv.Close()
				client = r[1].resumer("ann", "2025-11-25")
				assert.Contains(t, client.requestStatus(p), "processing ")
				s = client.stream(p.resume())
				client.reply(s.wait("elicitation/create").ID, c.answer)
				end := s.wait("")
				assert.JSONEq(t, "7", string(end.ID))
				assert.Contains(t, string(end.Result), c.says)
				assert.Equal(t, "completed true false", client.requestStatus(p))
				assert.Contains(t, client.ask(p.resume()), c.says, "it can be had again")
				code, _ := r[1].resumer("bob", "2025-11-25").refused(p.resume())
				assert.Equal(t, -32602, code, "it is somebody else's")
			})
		})
	}
}

// Its stream goes on once the client knows how to resume it.
func TestARequestThatCanBeResumedGoesOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := newTaskRig(t, withWork)
		c := r.resumer("ann", "2025-11-25")
		s := c.stream(toolCall(7, "work", "{}"))
		asked := s.wait("elicitation/create")
		p := s.policy()
		c.reply(asked.ID, yesSure)
		end := s.message()
		require.Empty(t, end.Method, "it is not told twice: %s", end.data)
		said, _ := text(t, end.Result)
		assert.Equal(t, "sure enough", said)
		assert.Equal(t, "completed true false", c.requestStatus(p))
	})
}

// What ends sooner is answered as ever, and so is who does not declare that he resumes requests.
func TestWhatCannotBeResumed(t *testing.T) {
	for name, wait := range map[string]time.Duration{"quick": time.Second, "other": 2500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newTaskRig(t, withWork)
				c := r.resumer("ann", "2025-11-25")
				if name == "other" {
					c = r.connect("2025-11-25", everything)
				}
				s := c.stream(toolCall(7, "work", "{}"))
				asked := s.message()
				require.Equal(t, "elicitation/create", asked.Method)
				time.Sleep(wait)
				c.reply(asked.ID, yesSure)
				assert.Empty(t, s.message().Method)
			})
		})
	}
}

// On pipes it is the same, also for the next process.
func TestResumeOnPipesWhatIsNoTask(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var shared server.Options
		connect := func() *legacyPipe {
			c := newLegacyPipeTo(t, "", newTaskRig(t, func(o *server.Options) {
				if shared.Ledger == nil {
					shared.Ledger, shared.Keys = o.Ledger, newKeys(t)
				}
				o.Ledger, o.Keys = shared.Ledger, shared.Keys
			}, withWork, noUsers).srv)
			c.send(initializeMessage("2025-11-25", resumable))
			c.message()
			return c
		}
		for _, millis := range []int{0, 2300} {
			c := connect()
			c.send(toolCall(7, "work", fmt.Sprintf(`{"millis":%d}`, millis)))
			m := c.message()
			if millis == 0 {
				require.Equal(t, "elicitation/create", m.Method)
				m = c.message()
			}
			require.Equal(t, "notifications/requests/resumePolicy", m.Method)
			var p resumePolicy
			require.NoError(t, json.Unmarshal(m.Params, &p))
			assert.Equal(t, 600, p.MaxWait)
			c.stop()
			for c.out.Scan() {
				assert.NotContains(t, c.out.Text(), `"id":7`)
			}
			c = connect()
			c.send(p.resume())
			c.reply(c.message(), yesSure)
			m = c.message()
			assert.JSONEq(t, "7", string(m.ID))
			said, _ := text(t, m.Result)
			assert.Equal(t, "sure enough", said)
			c.stop()
		}
	})
}
