package server_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Who does not declare the capability sees nothing of resumable requests, in any revision.
func TestResumableIsDeclared(t *testing.T) {
	r := newTaskRig(t)
	about := `{"requestId":1,"resumeToken":"x"}`
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		for capabilities, declared := range map[string]bool{
			`{"elicitation":{},"resumableRequests":{}}`:                  true,
			`{"elicitation":{},"experimental":{"resumableRequests":{}}}`: true,
			`{"elicitation":{}}`: false,
			`{"elicitation":{},"resumableRequests":true,"experimental":{"other":{}}}`: false,
		} {
			c := r.connect(version, capabilities, func(c *legacyClient) { c.header.Set("User", "ann") })
			resp := c.post(toolCall(1, "nap", `{"millis":300}`))
			first := c.read(resp).message()
			assert.Equal(t, declared, first.Method == "notifications/requests/resumePolicy", "%s %s %s", version, capabilities, first.data)
			want := -32601
			if declared {
				want = -32602
			}
			for _, method := range []string{"requests/getStatus", "requests/resume"} {
				code, _ := c.refused(methodCall(3, method, about))
				assert.Equal(t, want, code, "%s %s %s", version, capabilities, method)
			}
			// A tool that is no task is called as ever.
			assert.Contains(t, c.ask(toolCall(2, "plain", "{}")), "done")
		}
	}
	for _, method := range []string{"requests/getStatus", "requests/resume"} {
		m := r.send(modernRequest(method, object{"requestId": 1, "resumeToken": "x"}))
		require.NotNil(t, m.Error)
		assert.Equal(t, -32601, m.Error.Code)
	}
	none := newRig(t, server.Options{Tools: taskToolsWithout("must", "after"), Authenticate: users}).resumer("ann", "2025-11-25")
	code, _ := none.refused(methodCall(1, "requests/resume", about))
	assert.Equal(t, -32601, code, "there is no ledger")
}

// A token opens one request, of one principal, and all others are refused in the same words.
func TestResumeRefuses(t *testing.T) {
	r := newTaskRig(t)
	c, other := r.resumer("ann", "2025-11-25"), r.resumer("bob", "2025-11-25")
	s := c.stream(toolCall(7, "twice", "{}"))
	p := s.policy()
	theirs := other.stream(toolCall(7, "twice", "{}")).policy()
	begun := r.begin(callTool("nap", object{"millis": 10}))
	altered := []byte(p.ResumeToken)
	altered[len(altered)/2] ^= 1
	said := map[string]bool{}
	refused := func(c *legacyClient, message string) {
		t.Helper()
		code, text := c.refused(message)
		assert.Equal(t, -32602, code, text)
		said[text] = true
	}
	for name, token := range map[string]string{
		"foreign": theirs.ResumeToken, "altered": string(altered), "empty": "", "long": strings.Repeat("A", 100_000),
		"a task": begun.TaskID, "a session": c.session, "cut": p.ResumeToken[:len(p.ResumeToken)-1], "no token": "é",
	} {
		q := resumePolicy{RequestID: p.RequestID, ResumeToken: token}
		t.Log(name)
		refused(c, q.resume())
		refused(c, q.status(9))
	}
	for _, id := range []string{`8`, `"7"`, `7.5`} {
		q := resumePolicy{RequestID: []byte(id), ResumeToken: p.ResumeToken}
		refused(c, q.status(9))
		if id != `7.5` {
			refused(c, q.resume())
		}
	}
	refused(other, p.resume())
	refused(other, p.status(9))
	assert.Len(t, said, 1, "%v", said)
	for _, params := range []string{`{}`, `{"resumeToken":7,"requestId":7}`, `{"resumeToken":null,"requestId":7}`} {
		for _, method := range []string{"requests/getStatus", "requests/resume"} {
			code, _ := c.refused(methodCall(3, method, params))
			assert.Equal(t, -32602, code, params)
		}
	}
	// Nothing of that has disturbed the request.
	c.reply(s.wait("elicitation/create").ID, yesSure)
	c.reply(s.wait("elicitation/create").ID, yesSure)
	said1, _ := text(t, s.wait("").Result)
	assert.Equal(t, "sure enough", said1)
	assert.NotContains(t, r.log.take(), p.ResumeToken[:40])
}

// Of two streams that resume a request the later one is served, and the earlier one ends without
// an answer: in one session, in two, and on two replicas.
func TestResumedTwice(t *testing.T) {
	r := tasksReplicas(t, 2)
	c := r[0].resumer("ann", "2025-11-25")
	for name, next := range map[string]*legacyClient{
		"same session": c, "other session": r[0].resumer("ann", "2025-06-18"), "other replica": c.at(r[1]),
		"other session of another replica": r[1].resumer("ann", "2025-11-25"),
	} {
		t.Run(name, func(t *testing.T) {
			first := c.stream(toolCall(7, "twice", "{}"))
			p := first.policy()
			asked := first.wait("elicitation/create")
			second := next.stream(p.resume())
			again := second.wait("elicitation/create")
			assert.Equal(t, asked.ID, again.ID)
			first.end()
			third := next.stream(p.resume())
			third.wait("elicitation/create")
			second.end()
			next.reply(asked.ID, yesSure)
			next.reply(third.wait("elicitation/create").ID, yesSure)
			said, _ := text(t, third.wait("").Result)
			assert.Equal(t, "sure enough", said)
			third.end()
		})
	}
}

// tasksReplicas are servers with the same keys and ledger.
func tasksReplicas(t *testing.T, n int, change ...func(*server.Options)) (all []*rig) {
	var shared server.Options
	for range n {
		all = append(all, newTaskRig(t, append(change, func(o *server.Options) {
			if shared.Ledger == nil {
				shared.Ledger, shared.Keys = o.Ledger, newKeys(t)
			}
			o.Ledger, o.Keys = shared.Ledger, shared.Keys
		})...))
	}
	return all
}

// Many resume a request at once. One of them is answered in the end, and the others end.
func TestResumedByMany(t *testing.T) {
	r := tasksReplicas(t, 2)
	c := r[0].resumer("ann", "2025-11-25")
	s := c.stream(toolCall(7, "twice", "{}"))
	p := s.policy()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			resp := c.at(r[i%2]).post(p.resume())
			resp.Body.Close()
		})
	}
	all.Wait()
	s = c.at(r[1]).stream(p.resume())
	c.at(r[1]).reply(s.wait("elicitation/create").ID, yesSure)
	c.at(r[1]).reply(s.wait("elicitation/create").ID, yesSure)
	said, _ := text(t, s.wait("").Result)
	assert.Equal(t, "sure enough", said)
}

// What a client's session cannot be asked is asked in another.
func TestResumeFollowsTheSession(t *testing.T) {
	r := newTaskRig(t)
	c := r.resumer("ann", "2025-11-25")
	s := c.stream(toolCall(7, "twice", "{}"))
	p := s.policy()
	s.close()
	mute := r.connect("2025-11-25", `{"resumableRequests":{}}`, func(c *legacyClient) { c.header.Set("User", "ann") })
	code, why := mute.refused(p.resume())
	assert.Equal(t, -32600, code)
	assert.Contains(t, why, "has not declared elicitation.form")
	assert.Equal(t, "processing true true", mute.requestStatus(p))
	c = r.resumer("ann", "2025-11-25")
	s = c.stream(p.resume())
	// Cancelled, it is cancelled.
	s.wait("elicitation/create")
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`).Body.Close()
	s.wait("notifications/cancelled") // of the question
	s.end()
	until(t, func() bool { return c.requestStatus(p) == "failed true false" })
	code, why = c.refused(p.resume())
	assert.Equal(t, -32600, code)
	assert.Contains(t, why, "cancelled")
}

// A request that nobody comes back for is undone, and one whose client is there is not.
func TestResumeMaxWait(t *testing.T) {
	t.Parallel()
	for _, there := range []string{"gone", "connected", "looking"} {
		t.Run(there, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				w := new(world)
				hold := &saga.Effect[empty, empty]{
					Name: "hold",
					Do:   func(context.Context, saga.Key, empty) (empty, error) { w.note("+"); return empty{}, nil },
					Undo: func(context.Context, saga.Performed[empty, empty]) error { w.note("-"); return nil },
				}
				info := saga.Info{Name: "hold", Asks: []steps.Question{askSure}, Effects: []saga.Declared{hold}, Tasks: saga.Tasks{Mode: saga.TasksOptional, Keep: 3 * time.Second}}
				r := newTaskRig(t, func(o *server.Options) {
					o.Tools = []saga.Definition{saga.Flow[empty, string]{Info: info, Run: func(r *saga.Run, _ empty) (string, error) {
						if _, err := saga.Do(r, hold, empty{}); err != nil {
							return "", err
						}
						_, err := saga.Ask(r, askSure)
						return "held", err
					}}}
				})
				c := r.resumer("ann", "2025-11-25")
				s := c.stream(toolCall(7, "hold", "{}"))
				p := s.policy()
				assert.Equal(t, 3, p.MaxWait)
				question := s.wait("elicitation/create")
				if there != "connected" {
					s.close()
				}
				for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
					if there == "looking" {
						assert.Equal(t, "processing true true", c.requestStatus(p))
					}
				}
				if there == "gone" {
					until(t, func() bool { return w.was() == "+ -" })
					return
				}
				assert.Equal(t, "+", w.was())
				if there == "looking" {
					s = c.stream(p.resume())
					s.wait("elicitation/create")
				}
				c.reply(question.ID, yesSure)
				said, _ := text(t, s.wait("").Result)
				assert.Equal(t, "held", said)
			})
		})
	}
}
