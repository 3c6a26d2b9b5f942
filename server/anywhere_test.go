package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// anywhere are three servers with the same keys and ledger, behind which a client meets another one
// with each message.
type anywhere struct {
	rigs  []*rig
	store *troubled
	n     int
}

func newAnywhere(t *testing.T, tools ...saga.Definition) *anywhere {
	store := newTroubled(ledger.NewMemory(ledger.MemoryOptions{}))
	t.Cleanup(func() { _ = store.Close() })
	return &anywhere{replicas(t, 3, server.Options{Ledger: store, Tools: tools}), store, 0}
}

// next is the client at the next replica.
func (a *anywhere) next(c *legacyClient) *legacyClient {
	a.n++
	return c.at(a.rigs[a.n%len(a.rigs)])
}

// roundsTool asks as often as it is told to, and tells what it hears. Every third time it asks two
// things at once. No tasks are allowed.
type roundsArgs struct {
	Rounds int    `json:"rounds"`
	Name   string `json:"name,omitempty"`
}

func roundsTool(w *world) saga.Definition {
	hold := &saga.Effect[empty, empty]{
		Name: "hold",
		Do:   func(context.Context, saga.Key, empty) (empty, error) { w.note("+"); return empty{}, nil },
		Undo: func(context.Context, saga.Performed[empty, empty]) error { w.note("-"); return nil },
	}
	return saga.Flow[roundsArgs, string]{
		Info: saga.Info{Name: "rounds", Asks: []steps.Question{legacyForm, askSure, legacySample}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, a roundsArgs) (string, error) {
			if _, err := saga.Do(r, hold, empty{}); err != nil {
				return "", err
			}
			said := []string{a.Name}
			for i := range a.Rounds {
				if i%3 == 2 {
					if err := r.AskAll(legacyForm, askSure); err != nil {
						return "", err
					}
				} else if err := r.AskAll(legacyForm); err != nil {
					return "", err
				}
				form, err := legacyForm.Answer(r)
				if err != nil {
					return "", err
				}
				said = append(said, form.Name)
				r.Progress(float64(i)+1, float64(a.Rounds), form.Name)
			}
			return strings.Join(said, " "), nil
		},
	}
}

func roundsCall(id, rounds int, name string) string {
	return toolCall(id, "rounds", fmt.Sprintf(`{"rounds":%d,"name":%q}`, rounds, name))
}

func named(name string) string { return fmt.Sprintf(`{"action":"accept","content":{"name":%q}}`, name) }

// Every message of a call reaches another replica than the one before, in each revision that can
// ask for forms.
func TestCallsOnAnyReplica(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			w := new(world)
			a := newAnywhere(t, roundsTool(w))
			c := a.rigs[0].connect(version, everything)
			s := a.next(c).stream(roundsCall(4, 8, "I"))
			var want []string
			ids := make(map[string]bool)
			for round := range 8 {
				questions := 1
				if round%3 == 2 {
					questions = 2
				}
				var asked []sseEvent
				for range questions {
					asked = append(asked, s.wait("elicitation/create"))
				}
				for i := range asked { // the other way round
					q := asked[len(asked)-1-i]
					require.False(t, ids[string(q.ID)], "an id comes once")
					ids[string(q.ID)] = true
					if strings.Contains(string(q.Params), "Sure?") {
						a.next(c).reply(q.ID, yesSure)
					} else {
						want = append(want, fmt.Sprint(round))
						a.next(c).reply(q.ID, named(fmt.Sprint(round)))
					}
				}
			}
			m := s.message()
			for ; m.Method == "notifications/progress"; m = s.message() {
			}
			said, _ := text(t, m.Result)
			assert.Equal(t, "I "+strings.Join(want, " "), said, "%s", m.data)
			s.end()
			assert.Equal(t, "+", w.was())
		})
	}
}

// A declined question is answered at another replica as well; answers that come twice are taken,
// others that come late are not, wherever they do.
func TestAnswersAtAnyReplica(t *testing.T) {
	a := newAnywhere(t, roundsTool(new(world)))
	c := a.rigs[0].connect("2025-11-25", everything)
	s := c.stream(roundsCall(4, 3, "I"))
	first := s.wait("elicitation/create").ID
	c.at(a.rigs[1]).reply(first, named("one"))
	second := s.wait("elicitation/create").ID
	for _, r := range a.rigs {
		c.at(r).reply(first, named("one")) // again
		c.at(r).vain(first, named("other"))
	}
	c.at(a.rigs[2]).reply(second, named("two"))
	third, sure := s.wait("elicitation/create"), s.wait("elicitation/create")
	c.at(a.rigs[1]).reply(sure.ID, yesSure)
	c.at(a.rigs[2]).reply(third.ID, `{"action":"decline"}`)
	m := s.wait("")
	_, isError := text(t, m.Result)
	assert.True(t, isError)
	for _, r := range a.rigs {
		c.at(r).vain(third.ID, named("late"))
	}
	// Somebody else's session has no part in it.
	other := a.rigs[1].connect("2025-11-25", everything)
	s = c.stream(roundsCall(5, 1, "I"))
	q := s.wait("elicitation/create")
	other.vain(q.ID, named("x"))
	c.reply(q.ID, named("y"))
	said, _ := text(t, s.wait("").Result)
	assert.Equal(t, "I y", said)
}

// A call that is made again with the same id, as its connection was lost, is the same.
func TestCallsAreRepeated(t *testing.T) {
	w := new(world)
	a := newAnywhere(t, roundsTool(w))
	c := a.rigs[0].connect("2025-11-25", everything)
	for i := range 3 {
		w.mu.Lock()
		w.done = nil
		w.mu.Unlock()
		s := a.next(c).stream(roundsCall(7, 1, "I"))
		asked := s.wait("elicitation/create")
		for _, r := range []int{0, 1, 1, 2} {
			again := c.at(a.rigs[r]).stream(roundsCall(7, 1, "I"))
			assert.Equal(t, asked.ID, again.wait("elicitation/create").ID)
			s.end()
			s = again
		}
		// Another one is not.
		assert.Contains(t, c.at(a.rigs[0]).ask(roundsCall(7, 2, "I")), "in use")
		assert.Contains(t, c.at(a.rigs[2]).ask(roundsCall(7, 2, "I")), "in use")
		a.next(c).reply(asked.ID, named("x"))
		said, _ := text(t, s.wait("").Result)
		assert.Equal(t, "I x", said)
		assert.Equal(t, "+", w.was(), "%d: and the id can be used again", i)
	}
}

// Two hundred calls of one session ask on three replicas at once, and each hears what was said to
// it.
func TestManyCallsOfOneSession(t *testing.T) {
	t.Parallel()
	a := newAnywhere(t, roundsTool(new(world)))
	c := a.rigs[0].connect("2025-11-25", everything)
	var all sync.WaitGroup
	for i := range 200 {
		here, there := c.at(a.rigs[i%3]), c.at(a.rigs[(i/3+i)%3])
		all.Go(func() {
			s := here.stream(roundsCall(i+1, 1, fmt.Sprint("n", i)))
			q := s.wait("elicitation/create")
			there.reply(q.ID, named(fmt.Sprint("a", i)))
			said, _ := text(t, s.wait("").Result)
			assert.Equal(t, fmt.Sprintf("n%d a%d", i, i), said)
		})
	}
	all.Wait()
}

// Prompts and resources that ask are gone on with as well.
func TestPromptsAtAnyReplica(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	c := a.rigs[0].connect("2025-11-25", everything)
	for _, test := range []struct{ call, want string }{
		{methodCall(3, "prompts/get", `{"name":"greeting","arguments":{"name":"Ann"}}`), "Ann greets Jo"},
		{methodCall(4, "resources/read", `{"uri":"notes://ask"}`), `"blob":"Sm8="`},
	} {
		s := c.stream(test.call)
		q := s.wait("elicitation/create")
		s.close()
		s = c.at(a.rigs[1]).get(q.id)
		assert.Equal(t, q.ID, s.wait("elicitation/create").ID)
		c.at(a.rigs[2]).reply(q.ID, named("Jo"))
		assert.Contains(t, s.wait("").data, test.want)
		s = c.stream(strings.Replace(test.call, `"id":`, `"id":1`, 1))
		q = s.wait("elicitation/create")
		c.at(a.rigs[2]).reply(q.ID, `{"action":"decline"}`)
		m := s.wait("")
		require.NotNil(t, m.Error, m.data)
	}
	assert.Contains(t, c.ask(methodCall(5, "resources/read", `{"uri":"notes://gone"}`)), `"code":-32002`)
}

// A call that ends at once leaves nothing in the ledger.
func TestQuickCallsLeaveNothing(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	c := a.rigs[0].connect("2025-11-25", everything)
	for i := range 20 {
		assert.Contains(t, a.next(c).ask(toolCall(i, "sum", `{}`)), `"sum":3`)
		assert.Contains(t, a.next(c).ask(methodCall(i, "resources/read", `{"uri":"static://one"}`)), `"contents"`)
	}
	assert.Zero(t, a.store.writes.Load())
	s := c.stream(toolCall(1, "ask", `{"what":"form"}`))
	c.reply(s.wait("elicitation/create").ID, `{"action":"decline"}`)
	s.wait("")
	assert.NotZero(t, a.store.writes.Load())
}

// Links that the user has agreed to open at one replica are said to be done by another.
func TestLinksAtAnyReplica(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	c := a.rigs[0].connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "ask", `{"what":"link"}`))
	q := s.wait("elicitation/create")
	var p struct{ ElicitationID string }
	require.NoError(t, json.Unmarshal(q.Params, &p))
	require.NotEmpty(t, p.ElicitationID)
	s.close()
	s = c.at(a.rigs[1]).get(q.id)
	again := s.wait("elicitation/create")
	assert.JSONEq(t, string(q.Params), string(again.Params))
	c.at(a.rigs[2]).reply(q.ID, `{"action":"accept"}`)
	assert.Contains(t, string(s.wait("notifications/elicitation/complete").Params), p.ElicitationID)
	s.wait("")
}

// What waits for a task that has a name of its own is gone on with as well: tasks/result, and a
// call with an idempotency key, which is cancelled at any replica too.
func TestOtherWaitsAtAnyReplica(t *testing.T) {
	r := tasksReplicas(t, 3)
	c := r[0].user("ann", "2025-11-25")
	task := c.create("twice", "{}")
	for name, call := range map[string]string{"result": aboutTask(9, "result", task.TaskID), "key": keyedCall(9, "twice", "k")} {
		t.Run(name, func(t *testing.T) {
			c := r[0].user("ann", "2025-11-25")
			s := c.stream(call)
			q := s.wait("elicitation/create")
			c.at(r[1]).reply(q.ID, yesSure)
			q = s.wait("elicitation/create")
			s.close()
			s = c.at(r[2]).get(q.id)
			again := s.wait("elicitation/create")
			assert.Equal(t, q.ID, again.ID)
			if name == "result" {
				assert.Equal(t, task.TaskID, relatedTo(t, again.Params))
			}
			c.at(r[0]).reply(q.ID, yesSure)
			m := s.wait("")
			assert.Equal(t, "9", string(m.ID))
			said, _ := text(t, m.Result)
			assert.Equal(t, "sure enough", said)
		})
	}
	s := c.stream(keyedCall(11, "twice", "other"))
	s.wait("elicitation/create")
	c.at(r[1]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":11}}`).Body.Close()
	s.wait("notifications/cancelled")
	m := s.message()
	said, isError := text(t, m.Result)
	assert.True(t, isError, said)
	assert.Contains(t, said, "ancelled")
}
