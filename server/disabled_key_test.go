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

// A first call whose key leads to what cannot be read any more reads of that key: it has brought no token.
func TestAKeyThatLeadsToWhatADisabledKeyHasSealed(t *testing.T) {
	keys, s := newKeys(t), new(seats)
	book := s.tool()
	book.Tasks = saga.Tasks{Mode: saga.TasksOptional}
	r := newTaskRig(t, func(o *server.Options) { o.Keys, o.Tools, o.Authenticate = keys, []saga.Definition{book}, nil })
	c := r.connect("2025-11-25", everything)
	calls := map[string]func(key string) rpcMessage{
		"a saga": func(key string) rpcMessage {
			q := modernRequest("tools/callSaga", object{"name": "seat"}).with(allCapabilities)
			q.meta["io.github.mcpsaga/idempotencyKey"] = key
			return r.send(q).rpcMessage
		},
		"a round": func(key string) rpcMessage {
			q := callTool("seat", nil).with(allCapabilities)
			q.meta["io.github.mcpsaga/idempotencyKey"] = key
			return r.send(q).rpcMessage
		},
		"a task": func(key string) rpcMessage {
			q := callTool("seat", nil).with(withTasks)
			q.meta["io.github.mcpsaga/idempotencyKey"] = key
			return r.send(q).rpcMessage
		},
		"a call": func(key string) rpcMessage {
			resp := c.post(keyedCall(7, "seat", key))
			if resp.Header.Get("Content-Type") != "text/event-stream" {
				return parseMessage(t, readAll(t, resp))
			}
			s := c.read(resp)
			defer s.close()
			return rpcMessage{legacyMessage: s.message().legacyMessage}
		},
	}
	for name, call := range calls {
		m := call("the-key-of-" + strings.ReplaceAll(name, " ", "-") + "-which-cannot-be-guessed")
		require.Nil(t, m.Error, name)
		if name == "a task" { // or it is written once more, with the new key
			r.until(readTask(t, m.Result).TaskID, "input_required")
		}
	}
	added, id, err := keys.Add(codec.XChaCha20Poly1305)
	require.NoError(t, err)
	promoted, err := added.Promote(id)
	require.NoError(t, err)
	disabled, err := promoted.Disable(keys.Primary().ID)
	require.NoError(t, err)
	r.srv.SetKeys(disabled)
	c = r.connect("2025-11-25", everything)
	r.log.take()
	for name, call := range calls {
		m := call("the-key-of-" + strings.ReplaceAll(name, " ", "-") + "-which-cannot-be-guessed")
		require.NotNil(t, m.Error, "%s: %s", name, m.Result)
		assert.Equal(t, -32602, m.Error.Code, name)
		assert.Equal(t, "what was begun with this idempotency key cannot be read here any more: find out what it has done, and use a new key to call again", m.Error.Message, name)
	}
	log := r.log.take()
	assert.Equal(t, len(calls), strings.Count(log, "request not repeated"), log)
	assert.NotContains(t, log, "turn failed")
	assert.NotContains(t, log, "token refused")
}
