package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A call that is repeated with its key in another protocol acts only once: the repetition is refused, or
// leads to the same saga, as a session's call and its task are the same.
func TestKeysAreOfOneProtocol(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(seats)
		hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
		r := newTaskRig(t, func(o *server.Options) {
			o.Tools = []saga.Definition{saga.Flow[struct{}, string]{
				Info: saga.Info{Name: "seat", Effects: []saga.Declared{hold}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
				Run:  func(r *saga.Run, _ struct{}) (string, error) { return saga.Do(r, hold, "7") },
			}}
		})
		legacy, async := r.user("ann", "2025-11-25"), r.connect("2025-06-18", asyncTools, byUser("ann"))
		params := func(key, more string) string {
			return fmt.Sprintf(`{"name":"seat","arguments":{},"_meta":{"io.github.mcpsaga/idempotencyKey":%q}%s}`, key, more)
		}
		modern := func(key string, can object) string {
			q := callTool("seat", object{}).with(can)
			q.header.Set("User", "ann")
			q.meta["io.github.mcpsaga/idempotencyKey"] = key
			return r.send(q).raw
		}
		ways := []struct {
			name string
			call func(key string) string
		}{
			{"the saga proposal", func(key string) string {
				_, body := r.do(http.MethodPost, "/mcp", methodCall(1, "tools/callSaga", params(key, "")), func(q *http.Request) { q.Header.Set("User", "ann") })
				return body
			}},
			{"MCP 2026-07-28", func(key string) string { return modern(key, allCapabilities) }},
			{"a task of MCP 2026-07-28", func(key string) string { return modern(key, withTasks) }},
			{"an operation", func(key string) string { return async.ask(methodCall(1, "tools/call", params(key, `,"operation":{}`))) }},
			{"a session", func(key string) string { return legacy.ask(methodCall(1, "tools/call", params(key, ""))) }},
			{"a task of a session", func(key string) string { return legacy.ask(methodCall(1, "tools/call", params(key, `,"task":{}`))) }},
		}
		const ofSessions = 4
		for i, one := range ways {
			for j, other := range ways {
				key := fmt.Sprintf("a-key-that-cannot-be-guessed-%d-%d", i, j)
				require.Nil(t, parse(t, one.call(key)).Error, one.name)
				again := parse(t, other.call(key))
				if i == j || i >= ofSessions && j >= ofSessions {
					assert.Nil(t, again.Error, "%s, then %s", one.name, other.name)
				} else if assert.NotNil(t, again.Error, "%s, then %s", one.name, other.name) {
					assert.Equal(t, -32602, again.Error.Code)
					assert.Contains(t, again.Error.Message, "by another protocol, or as a task")
				}
			}
		}
		time.Sleep(time.Minute)
		_, calls := s.now()
		assert.Equal(t, len(ways)*len(ways), calls, "each once")
	})
}
