package dialect

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestAppendTask(t *testing.T) {
	at := time.Date(2026, 11, 22, 18, 0, 0, 1_999_999, time.FixedZone("", 3600))
	for want, task := range map[string]*tasks.Task{
		`{"taskId":"a\"b","status":"working","createdAt":"2026-11-22T17:00:00.001Z","lastUpdatedAt":"2026-11-22T17:00:01.001Z","ttl":null`: {
			ID: `a"b`, Created: at, Updated: at.Add(time.Second),
		},
		`{"taskId":"a","status":"completed","statusMessage":"done","createdAt":"2026-11-22T17:00:00.001Z","lastUpdatedAt":"2026-11-22T17:00:00.001Z","ttl":1,"poll":2`: {
			ID: "a", Created: at, Updated: at, Status: tasks.Completed, Message: "done", TTL: time.Nanosecond, Poll: time.Millisecond + 1,
		},
	} {
		assert.Equal(t, want, string(AppendTask(nil, task, TaskStatus(task.Status), task.Message, "ttl", "poll")))
	}
}

func TestTaskStatus(t *testing.T) {
	var all []string
	for s := tasks.Queued; s <= tasks.Cancelled; s++ {
		all = append(all, TaskStatus(s))
	}
	assert.Equal(t, []string{"working", "working", "input_required", "completed", "failed", "cancelled"}, all)
}

func TestOwnTaskID(t *testing.T) {
	for id, want := range map[string]bool{
		strings.Repeat("A", 22): true, "abcdefghijklmnopqrst-_": true, "ABCDEFGHIJKLMNOPQRS09Z": true,
		"": false, strings.Repeat("A", 21): false, strings.Repeat("A", 23): false, strings.Repeat("A", 21) + "=": false,
		strings.Repeat("A", 21) + "+": false, strings.Repeat("A", 20) + "\nA": false, strings.Repeat("é", 11): false,
	} {
		assert.Equal(t, want, OwnTaskID(id), "%q", id)
	}
}

func TestAppendInputRequests(t *testing.T) {
	assert.Equal(t, `{}`, string(AppendInputRequests(nil, nil)))
	assert.Equal(t, `{"a":{"method":"elicitation/create","params":{"x":1}},"b~2":{"method":"roots/list","params":{}}}`, string(AppendInputRequests(nil, []steps.Step{
		{ID: "a", Kind: steps.Elicitation, Params: []byte(`{"x":1}`)}, {ID: "b~2", Kind: steps.Roots, Params: []byte(`{}`)},
	})))
}

func TestTaskMode(t *testing.T) {
	p := &engine.Program{Definition: engine.Definition{Tasks: engine.Tasks{Mode: engine.TasksOptional}}}
	assert.Equal(t, engine.TasksForbidden, (&Host{}).TaskMode(p))
	assert.Equal(t, engine.TasksOptional, (&Host{Tasks: new(durable.Core)}).TaskMode(p))
}

func TestReadTasksCapability(t *testing.T) {
	for declared, want := range map[string]bool{
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`: true, `{"extensions":{"io.modelcontextprotocol/tasks":{"x":1}}}`: true,
		`{}`: false, `{"tasks":{}}`: false, `{"extensions":{}}`: false, `{"extensions":null}`: false, `{"extensions":{"io.modelcontextprotocol/tasks":null}}`: false,
		`{"extensions":{"io.modelcontextprotocol/tasks":true}}`: false, `{"io.modelcontextprotocol/tasks":{}}`: false,
	} {
		c, _, ok := ReadCapabilities([]byte(declared))
		assert.True(t, ok)
		assert.Equal(t, want, c.Tasks, declared)
	}
}

// Of those whom nobody knows, only who has been told an id may name it.
func TestMayName(t *testing.T) {
	const chosen, made = "operation-x", "AAAAAAAAAAAAAAAAAAAAAA"
	for _, c := range []struct {
		x    Exchange
		id   string
		want bool
	}{
		{Exchange{Header: http.Header{}}, chosen, false},
		{Exchange{Header: http.Header{}}, made, true},
		{Exchange{Header: http.Header{}, Principal: "ann"}, chosen, true},
		{Exchange{}, chosen, true}, // there is nobody else on a pair of pipes
	} {
		assert.Equal(t, c.want, c.x.MayName(c.id), "%+v", c)
	}
}
