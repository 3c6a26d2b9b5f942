package saga

import (
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Tasks says how a tool runs as a task: a saga that the server drives by itself, on its ledger,
// so that the work outlives the request. It takes a server with a ledger.
//
// Code of a tool is the same for a task and for a client that drives the saga. A task continues
// when a server dies, on another one: after each step function and each effect the server
// writes a checkpoint, from which the step function runs again and finds what it had performed.
// So a step function that performs effects must do the same when it runs again with the same
// answers, as a [Flow] must. The message of Progress is the task's status message. The context
// of a task's turn ends when the task is cancelled, with the reason as its cause
// ([context.Cause]), and what it did is undone.
type Tasks struct {
	// Mode says whether the tool may or must be a task.
	Mode TaskMode
	// After is the id of a question: until it is answered the client is asked in rounds, and
	// then the rest is a task. Empty: the task begins with the call.
	After string
	// TTL is how long a task may take, from its creation; what it did is then undone. A client
	// may ask for less. Default 24 hours.
	TTL time.Duration
	// Poll is how often clients are asked to poll. Default one second.
	Poll time.Duration
	// Keep is how long the result of an ended task is kept at least. Default one hour.
	Keep time.Duration
}

// TaskMode says whether a tool may run as a task, in MCP's words.
type TaskMode uint8

// The values of [TaskMode].
const (
	// TasksForbidden: clients drive the saga, or wait for it.
	TasksForbidden = TaskMode(engine.TasksForbidden)
	// TasksOptional: a client that knows of tasks may have the tool run as one. To all others
	// the tool is what it is without.
	TasksOptional = TaskMode(engine.TasksOptional)
	// TasksRequired: the tool only runs as a task, as it takes or sleeps too long for a
	// request. A server without a ledger refuses to start with it.
	TasksRequired = TaskMode(engine.TasksRequired)
)
