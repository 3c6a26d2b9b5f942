// Package tasks2025 has the tasks of MCP 2025-11-25, an experiment of that revision
// (basic/utilities/tasks): the client asks for a task with the parameter task of tools/call, looks
// at it with tasks/get, and waits for its end with tasks/result, on whose stream the task asks its
// questions. Clients of other revisions see nothing of them.
//
// offer.go is what clients see of tasks, and how they ask for one; view.go answers those who
// look at tasks, list or cancel them; notifier.go notifies a session of its tasks. To begin a task,
// and to wait for it, is the handshake's: there a task is one way among others to take a call to its
// end.
package tasks2025

import (
	"encoding/json"
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Capability is what the server declares to a client. A list is of those who are known: it would
// show anybody the tasks of all who are not.
func Capability(lists bool) map[string]any {
	type object = map[string]any
	c := object{"cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
	if lists {
		c["list"] = object{}
	}
	return c
}

// support is what lists say of a tool's Tasks.
var support = map[engine.TaskMode]string{engine.TasksOptional: "optional", engine.TasksRequired: "required"}

// Tools are the tools for clients that are offered tasks.
func Tools(h *dialect.Host) []json.RawMessage {
	list := make([]json.RawMessage, len(h.Catalogue.PlainTools))
	for i, t := range h.Tools.Of(engine.KindTool) {
		list[i] = h.Catalogue.PlainTools[i]
		if says := support[h.TaskMode(t)]; says != "" {
			b := append(json.RawMessage(nil), list[i][:len(list[i])-1]...)
			list[i] = append(wire.AppendString(append(b, `,"execution":{"taskSupport":`...), says), `}}`...)
		}
	}
	return list
}

// Texts of refusals.
const (
	noTasksText   = "this tool cannot be called as a task: leave out params.task"
	onlyTasksText = "this tool can only be called as a task: send params.task"
	badTTLText    = "params.task.ttl must be a number of milliseconds, and not less than 0"
)

// Wanted reports whether a client that is offered tasks wants a call to be one, and for how long.
func Wanted(mode engine.TaskMode, task jsontext.Value) (wanted bool, ttl time.Duration, rerr *wire.Error) {
	switch k := task.Kind(); {
	case (k == jsontext.KindInvalid || k == 'n') && mode == engine.TasksRequired:
		return false, 0, wire.NewError(wire.CodeMethodNotFound, onlyTasksText)
	case k == jsontext.KindInvalid || k == 'n':
		return false, 0, nil
	case k != '{':
		return false, 0, wire.WrongParam("/task")
	case mode == engine.TasksForbidden:
		return false, 0, wire.NewError(wire.CodeMethodNotFound, noTasksText)
	}
	var millis float64
	if v := jsonview.Get(task, "ttl"); v != nil && jsontext.Value(v).Kind() != 'n' {
		if err := json.Unmarshal(v, &millis); err != nil || millis < 0 {
			return false, 0, wire.NewError(wire.CodeInvalidParams, badTTLText)
		}
	}
	// What is too much is the author's to say, and nothing at all is no wish.
	return true, time.Duration(min(millis, math.MaxInt64/2/float64(time.Millisecond)) * float64(time.Millisecond)), nil
}
