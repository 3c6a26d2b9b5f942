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

// A key of a call that acts leads to it for a day, by whatever protocol, though the call has ended long before.
func TestKeysOfAllProtocolsAreKnownForADay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(seats)
		hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
		r := newTaskRig(t, func(o *server.Options) {
			o.Tools = []saga.Definition{saga.Flow[struct{}, string]{
				Info: saga.Info{Name: "seat", Effects: []saga.Declared{hold}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
				Run:  func(r *saga.Run, _ struct{}) (string, error) { return saga.Do(r, hold, "7") },
			}}
		})
		params := func(more string) string {
			return fmt.Sprintf(`{"name":"seat","arguments":{},"_meta":{"io.github.mcpsaga/idempotencyKey":%q}%s}`, "a-key-that-cannot-be-guessed"+more, more)
		}
		modern := func(can object, more string) string {
			q := callTool("seat", object{}).with(can)
			q.header.Set("User", "ann")
			q.meta["io.github.mcpsaga/idempotencyKey"] = "a-key-that-cannot-be-guessed" + more
			return r.send(q).raw
		}
		ways := map[string]func() string{
			"the saga proposal": func() string {
				_, body := r.do(http.MethodPost, "/mcp", methodCall(1, "tools/callSaga", params("")), func(q *http.Request) { q.Header.Set("User", "ann") })
				return body
			},
			"MCP 2026-07-28":           func() string { return modern(allCapabilities, "-2") },
			"a task of MCP 2026-07-28": func() string { return modern(withTasks, "-3") },
			"an operation": func() string {
				return r.connect("2025-06-18", asyncTools, byUser("ann")).ask(methodCall(1, "tools/call", params(`,"operation":{}`)))
			},
			"a session": func() string { return r.user("ann", "2025-11-25").ask(methodCall(1, "tools/call", params(`,"x":{}`))) },
			"a task of a session": func() string {
				return r.user("ann", "2025-11-25").ask(methodCall(1, "tools/call", params(`,"task":{}`)))
			},
		}
		for name, call := range ways {
			_, before := s.now()
			require.Nil(t, parse(t, call()).Error, name)
			time.Sleep(time.Second)
			_, calls := s.now()
			require.Equal(t, before+1, calls, name)
			time.Sleep(24*time.Hour - 2*time.Minute)
			call()
			time.Sleep(time.Second)
			_, again := s.now()
			assert.Equal(t, calls, again, name)
		}
	})
}
