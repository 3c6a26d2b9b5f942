package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

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
