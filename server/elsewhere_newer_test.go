package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// While a newer revision of a tool is rolled out, its calls wait on the old replicas' side, too: those say that the same is
// to be sent again, by every route, and what was done stands.
func TestCallsOfNewerRevisions(t *testing.T) {
	s, keys, store := new(seats), newKeys(t), inMemory(t)
	at := func(revision uint32) *rig {
		tool := asTask(s.tool(), saga.TasksOptional)
		tool.Revision = revision
		return newPagesRig(t, offering(tool), func(o *server.Options) { o.Keys, o.Ledger = keys, store })
	}
	older, newer := at(0), at(1)
	ann := func(q *request) *request {
		q.header.Set("User", "ann")
		return q
	}
	first := newer.waitsFor(callTool("seat", object{}), "ann")
	row := object{"row": object{"row": "7"}}
	old := older.connect("2025-11-25", `{}`, func(c *legacyClient) { c.header.Set("User", "ann") })

	for what, m := range map[string]response{
		"relay": older.send(ann(relay("seat", first, row))),
		"look":  older.send(ann(relay("seat", first, nil))),
		"form":  older.send(ann(callTool("mcpsaga_form", object{"resumeToken": first.ResumeToken}).with(showsApps))),
	} {
		require.NotNil(t, m.Error, "%s: %s", what, m.raw)
		assert.Equal(t, -31503, m.Error.Code, what)
		assert.Contains(t, m.Error.Message, "send the same request again", what)
	}
	code, text := old.refused(toolCall(3, "seat", `{"resumeToken":"`+first.ResumeToken+`"}`))
	assert.Equal(t, -31503, code)
	assert.Contains(t, text, "send the same request again")
	assert.Contains(t, older.log.take(), "token of a newer revision")

	shown := newer.page(first.URL)
	shows(t, older.page(first.URL), "A newer server continues it.")
	late := older.browse(http.MethodPost, first.URL, shown.form(t, "accept", "f0", "7"), nil)
	assert.Equal(t, http.StatusServiceUnavailable, late.status)
	shows(t, late, "send it again in a minute: nothing is lost")

	second := waitsOf(t, newer.send(ann(relay("seat", first, row))).Result)
	assert.Equal(t, "sure", second.Questions[0].ID)
	assert.Equal(t, "seat in 7", newer.send(ann(relay("seat", second, object{"sure": object{"sure": true}}))).result(t).text())
}

// A form that looks at an old replica while a newer one goes on with its call looks again.
func TestFormsWhoseCallsGoOnAtNewerServers(t *testing.T) {
	s, keys, store := &seats{slow: time.Second}, newKeys(t), inMemory(t)
	at := func(revision uint32) *rig {
		tool := asTask(s.tool(), saga.TasksOptional)
		tool.Revision = revision
		return newPagesRig(t, offering(tool), func(o *server.Options) { o.Keys, o.Ledger = keys, store })
	}
	older, newer := at(0), at(1)
	ann := func(q *request) { q.header.Set("User", "ann") }
	first := older.waitsFor(callTool("seat", object{}), "ann")
	second := make(chan response)
	go func() {
		q := relay("seat", first, object{"row": object{"row": "7"}})
		ann(q)
		second <- newer.send(q)
	}()
	shown := inForm{Status: "input_required"}
	for shown.Status == "input_required" { // until the answer is there
		shown = older.form(object{"resumeToken": first.ResumeToken}, ann)
	}
	assert.Equal(t, "working", shown.Status)
	assert.Empty(t, shown.Questions)
	assert.Equal(t, "sure", waitsOf(t, (<-second).Result).Questions[0].ID)
	assert.Len(t, newer.form(object{"resumeToken": first.ResumeToken}, ann).Questions, 1)
}
