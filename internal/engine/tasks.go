package engine

import "time"

// Tasks says whether a tool may be a task, which the server drives by itself. It is that of
// package saga.
type Tasks struct {
	Mode TaskMode
	// After is the question after whose answer the task begins; empty: with the call.
	After string
	// TTL is how long a task may take, Poll how often clients are asked to poll, Keep how long
	// an ended task is kept at least.
	TTL, Poll, Keep time.Duration
}

// TaskMode says whether a tool may or must be a task.
type TaskMode uint8

// The values of [TaskMode], as in package saga.
const (
	TasksForbidden TaskMode = iota
	TasksOptional
	TasksRequired
)

// Times of tasks unless their authors say others.
const (
	DefaultTaskTTL  = 24 * time.Hour
	DefaultTaskPoll = time.Second
	DefaultTaskKeep = time.Hour
)

// ResumeToken is the name of the argument with which clients go on in a result that comes in
// parts (SEP-1003). A tool that yields cannot have an argument of that name itself.
const ResumeToken = "resumeToken"

// checkTasks looks at what is said of tasks and fills in what is not.
func (t *Program) checkTasks(p *Problems) {
	given := t.Tasks
	for _, field := range []struct {
		name  string
		given time.Duration
		into  *time.Duration
		not   time.Duration
	}{
		{"TTL", given.TTL, &t.Tasks.TTL, DefaultTaskTTL}, {"Poll", given.Poll, &t.Tasks.Poll, DefaultTaskPoll}, {"Keep", given.Keep, &t.Tasks.Keep, DefaultTaskKeep},
	} {
		if field.given < 0 {
			p.Add(nil, "the %s of its Tasks is negative", field.name)
		} else if field.given == 0 {
			*field.into = field.not
		}
	}
	switch {
	case given.Mode > TasksRequired:
		p.Add(nil, "the Mode of its Tasks is %d, which is none", given.Mode)
	case given.Mode == TasksForbidden && given != (Tasks{}):
		p.Add(nil, "its Tasks say how tasks are, but their Mode is TasksForbidden; set TasksOptional or TasksRequired")
	case given.After != "" && t.questions[given.After] == nil:
		p.Add(nil, "its tasks begin after the question %q, which is not declared; After must be the id of one of the tool's Asks", given.After)
	case t.Outside(given.After):
		p.Add(nil, "its tasks begin after %q, which is an event; After must be a question that the client answers", given.After)
	}
}
