package server_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// The end of a request that can be resumed is kept for as long as its client may stay away.
func TestEndsAreKeptForWhoMayResume(t *testing.T) {
	for name, c := range map[string]struct {
		tasks saga.Tasks
		away  time.Duration
	}{
		"it may be a task":     {saga.Tasks{Mode: saga.TasksOptional, Keep: 2 * time.Hour}, 50 * time.Minute},
		"it may not be a task": {saga.Tasks{Mode: saga.TasksForbidden}, 9 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newTaskRig(t, func(o *server.Options) {
					o.Tools = []saga.Definition{saga.Machine[empty, empty]{
						Info:  saga.Info{Name: "rests", Tasks: c.tasks},
						Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Sleep(time.Minute, "end") },
						Steps: saga.Steps[empty, empty]{"end": func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Textf("rested") }},
					}}
				})
				client := r.resumer("ann", "2025-11-25")
				s := client.stream(toolCall(1, "rests", "{}"))
				var p resumePolicy
				require.NoError(t, json.Unmarshal(s.wait("notifications/requests/resumePolicy").Params, &p))
				s.close()
				time.Sleep(time.Minute + c.away)
				said, _ := text(t, parseLegacy(t, client.ask(p.resume())).Result)
				assert.Equal(t, "rested", said)
			})
		})
	}
}
