package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A client that cannot be asked what a tool comes to ask reads what was undone, and can have the rest tried again.
func TestClientsThatLackSomethingReadWhatWasUndone(t *testing.T) {
	for name, withLedger := range map[string]bool{"without a ledger": false, "with a ledger": true} {
		t.Run(name, func(t *testing.T) {
			held := map[saga.Key]bool{}
			tool := roomTool(1, held)
			o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}, Authenticate: users, Questions: server.Questions{NoRelay: true}}
			if withLedger {
				store := ledger.NewMemory(ledger.MemoryOptions{})
				t.Cleanup(func() { _ = store.Close() })
				o.Ledger = store
			}
			r := newRig(t, o)
			ann := func(c *legacyClient) { c.header.Set("User", "ann") }
			m := r.connect("2025-11-25", `{}`, ann).ask(methodCall(1, "tools/call", `{"name":"room"}`))
			assert.Equal(t, []string{"room"}, undone(t, m))
			assert.True(t, jsontest.Get(m, "result.isError").Bool())
			assert.Contains(t, m, `this client has not declared elicitation.form`)
			assert.Contains(t, m, `Undone: room.`)
			modern := callTool("room", nil)
			modern.header.Set("User", "ann")
			assert.Equal(t, "tool \"room\" cannot ask step \"sure\": it needs a client with elicitation.form\nUndone: room.", r.send(modern.with(object{})).Error.Message)
			assert.Empty(t, held)
			if withLedger {
				return
			}
			room := tool.Effects[0].(*saga.Effect[string, bool])
			undo := room.Undo
			room.Tries, room.Undo = 1, func(context.Context, saga.Performed[string, bool]) error { return errors.New("stuck") }
			m = r.connect("2025-11-25", `{}`, ann).ask(methodCall(1, "tools/call", `{"name":"room"}`))
			assert.Contains(t, m, "Not undone: room. This can be tried again.")
			room.Undo = undo
			again := roomMessage("cancelSaga", jsontest.Get(m, `result._meta.io\.github\.mcpsaga/undo.sagaToken`).String(), "")
			_, m = r.do(http.MethodPost, "/mcp", again, func(q *http.Request) { q.Header.Set("User", "ann") })
			assert.Equal(t, []string{"room"}, undone(t, m))
			assert.Empty(t, held)
		})
	}
}

// What a task's client lacks is said to whoever looks at it, however that request can be answered.
func TestStatusOfTasksThatLackSomething(t *testing.T) {
	r := newTaskRig(t, func(o *server.Options) { o.Questions.NoRelay = true })
	session := r.connect("2025-11-25", `{}`, func(c *legacyClient) { c.header.Set("User", "ann") })
	begun := session.create("both", "{}")
	session.until(begun.TaskID, "failed")
	resp := session.request(http.MethodPost, aboutTask(2, "get", begun.TaskID), func(q *http.Request) { q.Header.Set("Accept", "application/json") })
	shown := parseLegacy(t, readAll(t, resp))
	require.Nil(t, shown.Error)
	assert.Contains(t, string(shown.Result), "this client has not declared elicitation.form")
}
