package server_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// heldReplicas are two servers in a bubble whose tool takes so long for its effect.
func heldReplicas(t *testing.T, slow time.Duration) ([]*rig, *seats) {
	s, store := &seats{slow: slow}, ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	return replicas(t, 2, server.Options{Ledger: store, Tools: []saga.Definition{s.tool()}, TurnTimeout: time.Hour, TokenTTL: time.Hour}), s
}

// inWindow plays the form of a session's client.
func (c *legacyClient) inWindow(args string) string { return c.ask(toolCall(99, "mcpsaga_form", args)) }

const (
	rowInWindow  = `{"frame":"1","answers":{"row":{"action":"accept","content":{"row":"7"}}}}`
	sureInWindow = `{"frame":"1","answers":{"sure":{"action":"accept","content":{"sure":true}}}}`
)

// A client that has lost the stream of a call that is held comes back to any replica, which holds the call as long as
// the first would have, and answers it.
func TestHeldCallsMove(t *testing.T) {
	key := func(q *http.Request) { q.Header.Set("Idempotency-Key", "k") }
	for name, c := range map[string]struct {
		capabilities string
		change       func(*http.Request)
		slow         time.Duration
		goesOn       bool // it is a call with a token that is held
		form         bool // the form answers
		want         string
		after        time.Duration
	}{
		"for a form":                 {showsAppsJSON, nil, 0, false, true, "seat in 7", 10 * time.Second},
		"for a form, with a key":     {showsAppsJSON, key, 0, false, true, "seat in 7", 10 * time.Second},
		"for a form that is not":     {showsAppsJSON, nil, 0, false, false, "Which row?", 3 * time.Second},
		"as its tool works":          {"{}", nil, 30 * time.Second, true, false, "Sure?", 30 * time.Second},
		"as its tool works for long": {"{}", nil, 100 * time.Second, true, false, "not finished", 45 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, s := heldReplicas(t, c.slow)
				one := r[0].connect("2025-11-25", c.capabilities)
				other, args := one.at(r[1]), "{}"
				if c.goesOn {
					first := waitsOf(t, parseLegacy(t, one.ask(toolCall(1, "seat", "{}"))).Result)
					args = fmt.Sprintf(`{"resumeToken":%q,"answers":{"row":{"row":"7"}}}`, first.ResumeToken)
				}
				began := time.Now()
				lost := one.read(one.request("POST", toolCall(4, "seat", args), c.change))
				opening, err := lost.next()
				require.NoError(t, err)
				require.NotEmpty(t, opening.id)
				lost.close()
				if c.form {
					assert.Contains(t, one.inWindow(`{"frame":"1"}`), "Which row?")
				}
				time.Sleep(time.Second) //sagavet:ignore in virtual time
				moved := other.get(opening.id)
				synctest.Wait()
				if c.form {
					time.Sleep(9 * time.Second) //sagavet:ignore in virtual time
					assert.Contains(t, other.inWindow(rowInWindow), "Sure?")
					assert.Contains(t, one.inWindow(sureInWindow), `"completed"`)
				}
				end := moved.wait("")
				assert.Contains(t, end.data, c.want)
				assert.Equal(t, "4", string(end.ID))
				assert.Equal(t, c.after, time.Since(began).Truncate(time.Second))
				moved.end()
				_, calls := s.now()
				assert.LessOrEqual(t, calls, 1)

				again := other.get(end.id) // it has the response
				_, err = again.next()
				require.NoError(t, err)
				again.end()
				assert.Contains(t, one.get(opening.id).wait("").data, `"id":4`, "the answer was lost")
				time.Sleep(c.slow) //sagavet:ignore in virtual time, until the tool has ended
				for _, one := range r {
					one.srv.Close()
				}
			})
		})
	}
}

// A call that is sent again with its id is the same one, at any replica, whether it is held or waits. What differs from
// it is another one.
func TestHeldCallsAreRepeated(t *testing.T) {
	s := new(seats)
	r := replicas(t, 2, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{s.tool(), greet()}})
	one := r[0].connect("2025-11-25", showsAppsJSON)
	other := one.at(r[1])
	first := one.stream(toolCall(4, "seat", "{}"))
	until(t, func() bool { return strings.Contains(one.inWindow(`{"frame":"1"}`), "Which row?") })
	again, here := other.stream(toolCall(4, "seat", "{}")), one.stream(toolCall(4, "seat", "{}"))
	_, err := first.next()
	require.NoError(t, err)
	first.end() // the same request has taken its place
	assert.Contains(t, other.inWindow(rowInWindow), "Sure?")
	assert.Contains(t, other.inWindow(sureInWindow), `"completed"`)
	for _, stream := range []*sseReader{again, here} {
		assert.Contains(t, stream.wait("").data, "seat in 7")
	}
	_, calls := s.now()
	assert.Equal(t, 1, calls)

	plain := r[0].connect("2025-11-25", "{}")
	waiting := waitsOf(t, parseLegacy(t, plain.ask(toolCall(1, "seat", "{}"))).Result)
	same := waitsOf(t, parseLegacy(t, plain.at(r[1]).ask(toolCall(1, "seat", "{}"))).Result)
	assert.Equal(t, waiting.ResumeToken, same.ResumeToken)
	differs := waitsOf(t, parseLegacy(t, plain.at(r[1]).ask(toolCall(1, "greet", `{"name":"Jo"}`))).Result)
	assert.NotEqual(t, waiting.ResumeToken, differs.ResumeToken)
}

// What ends a call ends it wherever it is held; what has been answered is not ended with its request or its session.
// Nobody answers it as a client that can be asked.
func TestHeldCallsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		moved, answered bool
		end             func(*legacyClient)
	}{
		"cancelled at another":             {false, false, cancelFour},
		"cancelled after it has moved":     {true, false, cancelFour},
		"session ended at another":         {false, false, deleteSession},
		"session ended after it has moved": {true, false, deleteSession},
		"cancelled when it was answered":   {false, true, cancelFour},
		"session ended when answered":      {false, true, deleteSession},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, store := new(seats), ledger.NewMemory(ledger.MemoryOptions{})
				t.Cleanup(func() { _ = store.Close() })
				r := replicas(t, 2, server.Options{Ledger: store, Tools: []saga.Definition{s.holdsFirst()}})
				one := r[0].connect("2025-11-25", showsAppsJSON)
				stream := one.stream(toolCall(4, "seat", "{}"))
				opening, err := stream.next()
				require.NoError(t, err)
				if c.moved {
					stream.close()
					stream = one.at(r[1]).get(opening.id)
				}
				if c.answered {
					stream.wait("")
				}
				number, err := strconv.ParseInt(opening.id[strings.LastIndexByte(opening.id, '.')+1:], 36, 64)
				require.NoError(t, err)
				one.at(r[1]).vain(fmt.Appendf(nil, "%d", 1<<52|number<<12|1), accepted(`{"row":"1"}`))
				c.end(one.at(r[1]))
				time.Sleep(5 * time.Second) //sagavet:ignore in virtual time
				synctest.Wait()
				held, calls := s.now()
				assert.Equal(t, 1, calls)
				assert.Equal(t, map[bool]int{true: 1, false: 0}[c.answered], held)
				for _, one := range r {
					one.srv.Close()
				}
			})
		})
	}
}

func cancelFour(c *legacyClient) {
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
}

func deleteSession(c *legacyClient) { readAll(c.t, c.request("DELETE", "", nil)) }
