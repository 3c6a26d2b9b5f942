package interop

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tasksClient is the official client of tasks. What it gets that is not as its schemas say is an
// error.
var tasksClient = contender{"TypeScript SDK 2 with tasks", "2026-07-28", true, nodeClient("tasks.mjs", map[string]string{"pin": "2026-07-28"})}

// ownTasksClient is ours.
var ownTasksClient = contender{"this module's client with tasks", "2026-07-28", true, ownClient("2026-07-28")}

// taskPlays are calls of tools that become tasks, but for the first.
func taskPlays() []play {
	yes, name := accept(map[string]any{"confirm": true}), accept(map[string]any{"name": "Alice"})
	return []play{
		{"at once", call{Tool: "greet", Arguments: map[string]any{"name": "Ada"}}, "Hello, Ada!", false, nil},
		{"slow", call{Tool: "slow_compute", Arguments: map[string]any{"seconds": 0.3, "label": "It"}}, "It took 0.3 seconds.", false, nil},
		{"fails", call{Tool: "failing_job"}, "this job always fails", true, nil},
		{"asks", call{Tool: "confirm_delete", Arguments: map[string]any{"filename": "a.txt"}, Elicit: []answer{yes}},
			"a.txt would be deleted.", false, []string{elicitation + "Delete the file?"}},
		{"asks, declined", call{Tool: "confirm_delete", Arguments: map[string]any{"filename": "a.txt"}, Elicit: []answer{{Action: "decline"}}},
			`Stopped: "confirm" was declined.`, true, []string{elicitation + "Delete the file?"}},
		{"asks two things", call{Tool: "multi_input", Elicit: []answer{accept(map[string]any{"name": "Alice", "confirm": true}), accept(map[string]any{"name": "Alice", "confirm": true})}},
			"Alice goes on: true", false, []string{elicitation + "What is your name?", elicitation + "Go on?"}},
		{"asks before", call{Tool: "test_tool_with_task", Elicit: []answer{name}}, "Hello, Alice!", false, []string{elicitation + "What is your name?"}},
	}
}

// TestTaskClient has the official client of tasks take them to their ends, on our servers and
// on one of the SDK's.
func TestTaskClient(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"own": nil, "mounted": {onSDK}} {
		p := startHTTP(t, more...)
		for way, at := range map[string]target{"HTTP": {URL: p.url()}, "stdio": p.stdio()} {
			t.Run("this module's client, "+name+" "+way, func(t *testing.T) {
				t.Parallel()
				requireOutcomes(t, ownTasksClient, at, taskPlays(), nil)
				outcomes := ownTasksClient.play(t, at, []call{taskPlays()[0].call, taskPlays()[1].call, {Tool: "protocol_error_job"}})
				assert.Empty(t, outcomes[0].Task)
				assert.Regexp(t, `^[A-Za-z0-9_-]{22}$`, outcomes[1].Task)
				assert.Contains(t, outcomes[1].Statuses, "completed")
				assert.Contains(t, outcomes[2].Error, "internal error")
			})
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				plays := taskPlays()
				requireOutcomes(t, tasksClient, at, plays, nil)
				outcomes := tasksClient.play(t, at, []call{
					plays[0].call, plays[1].call,
					{Tool: "protocol_error_job"}, {Tool: "slow_compute", Arguments: map[string]any{"seconds": 60, "label": "It"}, CancelTask: true},
				})
				assert.Empty(t, outcomes[0].Task)
				assert.Regexp(t, `^[A-Za-z0-9_-]{22}$`, outcomes[1].Task)
				assert.Contains(t, outcomes[1].Statuses, "completed")
				assert.Contains(t, outcomes[2].Error, "internal error")
				assert.Contains(t, outcomes[3].Error, "TaskCancelledError")
			})
		}
	}
}

// TestTaskClientWhileServersDie kills the server, and starts another with the same ledger,
// whenever a task waits for an answer.
func TestTaskClientWhileServersDie(t *testing.T) {
	t.Parallel()
	p := startHTTP(t, "--ledger", filepath.Join(t.TempDir(), "ledger.db"))
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := p.restart(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer between.Close()
	plays := taskPlays()
	asked := 0
	for _, p := range plays {
		asked += len(p.asked)
	}
	for _, c := range []contender{ownTasksClient, tasksClient} {
		t.Run(c.name, func(t *testing.T) {
			before := p.restarts
			requireOutcomes(t, c, target{URL: p.url()}, plays, func(c *call) { c.Between = between.URL })
			assert.Equal(t, asked, p.restarts-before)
		})
	}
}

// What the suite says of each of the tools for tasks.
func TestTaskFixtures(t *testing.T) {
	set, _ := registry(t)
	modes := map[string]engine.TaskMode{
		"greet": engine.TasksForbidden, "slow_compute": engine.TasksOptional, "failing_job": engine.TasksRequired, "protocol_error_job": engine.TasksOptional,
		"confirm_delete": engine.TasksOptional, "multi_input": engine.TasksOptional, "test_tool_with_task": engine.TasksRequired,
	}
	tasks := 0
	for _, tool := range set.Of(engine.KindTool) {
		mode, named := modes[tool.Name]
		assert.Equal(t, mode, tool.Tasks.Mode, tool.Name)
		if named {
			tasks++
		}
	}
	assert.Equal(t, len(modes), tasks)
	out, err := start(t, set.Find(engine.KindTool, "multi_input"), steps.AllFeatures(), "")
	require.NoError(t, err)
	assert.Len(t, out.Steps, 2)
	assert.Equal(t, "user_name", set.Find(engine.KindTool, "test_tool_with_task").Tasks.After)
}
