package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/server"
)

// A client may cancel what it has begun, in whatever way and at whatever replica, though Permit has changed its mind.
func TestCallersMayCancelWhatTheyMayNotUseAnyMore(t *testing.T) {
	for name, lost := range map[string]error{"hidden": server.ErrHidden, "a scope": &server.AuthError{Status: 403, Challenge: stepUp}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p permits
			g := newGuarded(t, func(o *server.Options) { o.Hooks, o.Permit = nil, p.permit })
			ann := func(c *legacyClient) { c.header = http.Header{"User": {"ann"}} }
			c, a := g.here.connect("2025-11-25", `{"elicitation":{}}`, ann), g.here.connect("2025-11-25", asyncTools, ann)
			task := c.create("twice", "{}")
			c.until(task.TaskID, "input_required")
			call := c.stream(toolCall(11, "twice", "{}"))
			call.wait("elicitation/create")
			a.begin(13, "twice", "{}", "mine")
			until(t, func() bool { s, _ := a.polled("mine"); return s.Status == "input_required" })

			p.lost.Store(&lost)
			assert.Contains(t, c.ask(aboutTask(2, "cancel", task.TaskID)), `"cancelled"`)
			for id, at := range map[string]*legacyClient{"11": c.at(g.there), "13": a.at(g.there)} {
				resp := at.request("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, nil)
				assert.Equal(t, http.StatusAccepted, resp.StatusCode, readAll(t, resp))
			}
			for {
				e, err := call.next()
				if err != nil {
					break
				}
				assert.Nil(t, e.Result)
			}
			assert.Contains(t, readAll(t, c.request("POST", aboutTask(3, "get", task.TaskID), nil)), `"error"`, "it may not look at it")
			p.lost.Store(nil)
			until(t, func() bool { s, _ := a.polled("mine"); return s.Status == "canceled" })
		})
	}
}
