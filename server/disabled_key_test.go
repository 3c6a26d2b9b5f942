package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What was sealed with a key that is disabled is forgotten, which is no outage: a task is not there any more, a
// call that waits ends, and the log does not fill.
func TestWhatADisabledKeyHasSealedIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		keys, s := newKeys(t), new(seats)
		book := s.tool()
		book.Tasks = saga.Tasks{Mode: saga.TasksOptional}
		r := newTaskRig(t, func(o *server.Options) { o.Keys, o.Tools = keys, []saga.Definition{book} })
		task := r.begin(callTool("seat", nil))
		r.until(task.TaskID, "input_required")
		stream := r.user("ann", "2025-11-25").stream(methodCall(7, "tools/call", `{"name":"seat","arguments":{}}`))
		stream.wait("elicitation/create")

		added, id, err := keys.Add(codec.XChaCha20Poly1305)
		require.NoError(t, err)
		promoted, err := added.Promote(id)
		require.NoError(t, err)
		disabled, err := promoted.Disable(keys.Primary().ID)
		require.NoError(t, err)
		r.log.take()
		r.srv.SetKeys(disabled)
		stream.wait("notifications/cancelled")
		end, err := stream.next()
		require.NoError(t, err)
		require.NotNil(t, end.Error)
		assert.Equal(t, -32603, end.Error.Code)
		assert.Contains(t, end.Error.Message, "begin again")
		time.Sleep(time.Hour)
		for range 10 {
			assert.Equal(t, -32602, r.send(taskRequest("get", task.TaskID)).code())
		}
		log := r.log.take()
		assert.NotContains(t, log, "the ledger cannot be used")
		assert.LessOrEqual(t, strings.Count(log, "a saga is forgotten"), 2*7, "one of each in ten minutes")
		assert.Less(t, strings.Count(log, "\n"), 40)
	})
}
