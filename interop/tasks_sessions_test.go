package interop

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The official client of the tasks of MCP 2025-11-25. What it is asked, or gets, that is not of
// its task is an error.
var sessionTasksClient = contender{"TypeScript SDK 1 with tasks", "2025-11-25", false, nodeClient("v1tasks.mjs", map[string]bool{})}

// TestSessionTaskClient has the client take tasks to their ends.
func TestSessionTaskClient(t *testing.T) {
	t.Parallel()
	p := startHTTP(t)
	for way, at := range map[string]target{"HTTP": {URL: p.url()}, "stdio": p.stdio()} {
		t.Run(way, func(t *testing.T) {
			plays := taskPlays()[1:] // the first is none for tasks
			requireOutcomes(t, sessionTasksClient, at, plays, nil)
			outcomes := sessionTasksClient.play(t, at, []call{
				plays[0].call, {Tool: "protocol_error_job"}, {Tool: "greet", Arguments: map[string]any{"name": "Ada"}},
				{Tool: "slow_compute", Arguments: map[string]any{"seconds": 60, "label": "It"}, CancelTask: true},
			})
			assert.Regexp(t, `^[A-Za-z0-9_-]{22}$`, outcomes[0].Task)
			assert.Equal(t, "working", outcomes[0].Statuses[0])
			assert.Contains(t, outcomes[0].Statuses, "completed")
			assert.Contains(t, outcomes[1].Error, "internal error")
			assert.Contains(t, outcomes[2].Error, "-32601", "it is none for tasks")
			assert.Equal(t, "cancelled", outcomes[3].Statuses[0])
			assert.True(t, outcomes[3].Result.IsError)
			assert.Equal(t, "Cancelled.", outcomes[3].text())
		})
	}
}

// TestPlainCallsOfTasks has clients that know nothing of tasks call the same tools.
func TestPlainCallsOfTasks(t *testing.T) {
	onlyIfWanted(t, "calls tools that take their time")
	t.Parallel()
	var plays []play
	for _, p := range taskPlays() {
		if p.call.Tool != failingJob.Name && p.call.Tool != withTask.Name { // which are to be called as tasks
			if p.call.Arguments == nil {
				p.call.Arguments = map[string]any{}
			}
			plays = append(plays, p)
		}
	}
	for name, more := range map[string][]string{"own": nil, "mounted": {onSDK}} {
		p := startHTTP(t, more...)
		for way, at := range map[string]target{"HTTP": {URL: p.url()}, "stdio": p.stdio()} {
			for _, c := range contenders() {
				if c.protocol != "2025-11-25" {
					continue
				}
				t.Run(name+" "+way+" "+c.name, func(t *testing.T) { requireOutcomes(t, c, at, plays, nil) })
			}
		}
	}
}
