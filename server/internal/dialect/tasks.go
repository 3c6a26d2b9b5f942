package dialect

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What the protocols of tasks share. Each shows the same tasks in its own way.

// TasksExtension is the name of the tasks extension of MCP 2026-07-28 (SEP-2663).
const TasksExtension = "io.modelcontextprotocol/tasks"

// OffersTasks reports whether clients see tasks.
func (h *Host) OffersTasks() bool { return h.Tasks != nil && !h.CallsOnly }

// TaskMode says whether the program's sagas can be tasks here: without a ledger none can.
func (h *Host) TaskMode(t *engine.Program) engine.TaskMode {
	if !h.OffersTasks() {
		return engine.TasksForbidden
	}
	return t.Tasks.Mode
}

// MayName reports whether the sender of x may look for a task of that id where tasks are listed
// as well: a principal's tasks are one set there, whatever protocol began them. But of those without a
// known owner, which all clients that have not authenticated share, only ids that a server has
// made up are looked for.
func (x *Exchange) MayName(id string) bool {
	return x.Header == nil || x.Principal != "" || OwnTaskID(id)
}

// OwnTaskID reports whether an id has the form of those that servers make: 22 of A-Z a-z 0-9 - _ , or 43
// if the task was a saga before.
// A protocol that has no list looks for no others, so that no one finds by guessing what was begun by
// another protocol under a name that can be guessed.
func OwnTaskID(id string) bool {
	return (len(id) == 22 || len(id) == 43) && !strings.ContainsFunc(id, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// TaskStatus is what MCP calls the status of a task. A task that completes with a result that
// says that the tool failed is completed; a protocol that calls it otherwise has to look.
func TaskStatus(s tasks.Status) string {
	return [...]string{
		tasks.Queued: "working", tasks.Working: "working", tasks.InputRequired: "input_required",
		tasks.Completed: "completed", tasks.Failed: "failed", tasks.Cancelled: "cancelled",
	}[s]
}

// AppendTask writes the members of MCP's Task, whose last two have other names in each
// revision. It leaves the object open.
func AppendTask(b []byte, t *tasks.Task, status, message, ttl, poll string) []byte {
	b = wire.AppendString(append(b, `{"taskId":`...), t.ID)
	b = wire.AppendString(append(b, `,"status":`...), status)
	if message != "" {
		b = wire.AppendString(append(b, `,"statusMessage":`...), message)
	}
	b = AppendTime(append(b, `,"createdAt":`...), t.Created)
	b = AppendTime(append(b, `,"lastUpdatedAt":`...), t.Updated)
	b = append(wire.AppendString(append(b, ','), ttl), ':')
	if t.TTL > 0 {
		b = appendMillis(b, t.TTL)
	} else {
		b = append(b, "null"...)
	}
	if t.Poll > 0 {
		b = append(wire.AppendString(append(b, ','), poll), ':')
		b = appendMillis(b, t.Poll)
	}
	return b
}

// AppendTime writes a time as MCP has it: ISO 8601, in UTC, to the millisecond.
func AppendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(append(b, '"'), "2006-01-02T15:04:05.000Z")
	return append(b, '"')
}

// appendMillis writes milliseconds, begun ones included: no duration is 0.
func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendInt(b, int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// DigestCall identifies a call of what has that name, whatever the spelling of its arguments. It is
// kept with tasks.
func DigestCall(name string, args json.RawMessage) []byte {
	canonical, err := jsonview.Canonical(args)
	if len(args) == 0 {
		canonical = []byte("{}")
	} else if err != nil {
		canonical = args
	}
	h := sha256.New()
	h.Write(append([]byte(name), 0))
	h.Write(canonical)
	return h.Sum(nil)[:16]
}

// AppendInputRequests writes questions as an InputRequests object: requests by key, without an
// envelope (MCP 2026-07-28, basic/patterns/mrtr).
func AppendInputRequests(b []byte, asked []steps.Step) []byte {
	b = append(b, '{')
	for i := range asked {
		step := &asked[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(b, step.ID)
		b = append(b, `:{"method":"`...)
		b = append(b, RequestMethods[step.Kind]...)
		b = append(b, `","params":`...)
		b = append(b, step.Params...)
		b = append(b, '}')
	}
	return append(b, '}')
}

// eventPage is how many events are read at once.
const eventPage = 100

// TaskResult is a copy of the result of a task, which begins with the parts that the tool has yielded:
// a client that waits for a task has not had them.
func (h *Host) TaskResult(ctx context.Context, principal string, t *tasks.Task) (*content.Result, error) {
	result := *t.End.Result
	if t.Program == nil || !t.Program.Yields {
		return &result, nil
	}
	var parts content.Blocks
	for n := uint64(0); n < t.Events; {
		events, err := h.Tasks.Events(ctx, principal, t.ID, n, eventPage)
		if err != nil {
			return nil, err
		}
		for i := range events {
			parts, n = append(parts, events[i].Content...), events[i].N
		}
		if len(events) < eventPage {
			break
		}
	}
	result.Content = append(parts, result.Content...)
	return &result, nil
}

// TaskFailure is the error of JSON-RPC by which a task has failed: what a request that waited
// for it would have got. It is the end, so it says nothing of trying again.
func (h *Host) TaskFailure(ctx context.Context, t *tasks.Task) *wire.Error {
	var failed *tasks.FailedError
	if errors.As(t.Err, &failed) {
		return wire.NewError(wire.CodeInternalError, failed.Text)
	}
	err := t.Err
	if !errors.As(err, new(*turns.Error)) {
		err = &turns.Error{Err: err} // it was logged where it failed
	}
	rerr := h.Translate(ctx, "", err)
	if rerr.Code == wire.CodeTryAgain {
		return wire.NewError(wire.CodeInternalError, InternalText)
	}
	return &wire.Error{Code: rerr.Code, Message: rerr.Message, Data: rerr.Data}
}
