package dialect

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
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
	const iso = "2006-01-02T15:04:05.000Z" // in UTC, to the millisecond
	members, _ := wire.Marshal(struct {    // strings always encode
		ID      string `json:"taskId"`
		Status  string `json:"status"`
		Message string `json:"statusMessage,omitzero"`
		Created string `json:"createdAt"`
		Updated string `json:"lastUpdatedAt"`
	}{t.ID, status, message, t.Created.UTC().Format(iso), t.Updated.UTC().Format(iso)})
	b = append(b, members[:len(members)-1]...)
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
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte{0}, canonical))
	return sum[:16]
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

// InputResponses reads the answers to these: results by key. Whether they answer the questions is for the engine to decide.
func InputResponses(responses jsontext.Value) ([]steps.Answer, error) {
	if responses == nil {
		return nil, nil
	}
	if responses.Kind() != '{' {
		return nil, invalid("params.inputResponses must be an object")
	}
	answers := make([]steps.Answer, 0, 2)
	for key, v := range jsonview.Members(responses) {
		if jsontext.Value(v).Kind() != '{' {
			return nil, invalid("every member of params.inputResponses must be a result object")
		}
		answers = append(answers, steps.Answer{StepID: string(key), Result: json.RawMessage(v)})
	}
	slices.SortFunc(answers, func(a, b steps.Answer) int { return strings.Compare(a.StepID, b.StepID) })
	return answers, nil
}

// TaskResult is a copy of the result of a task, which begins with the parts that the tool has yielded:
// a client that waits for a task has not had them.
func (h *Host) TaskResult(ctx context.Context, principal string, t *tasks.Task) (*content.Result, error) {
	result := *t.End.Result
	if t.Program == nil || !t.Program.Yields {
		return &result, nil
	}
	parts, err := h.Tasks.Parts(ctx, principal, t.ID)
	if err != nil {
		return nil, err
	}
	result.Content = append(parts, result.Content...)
	return &result, nil
}

// TaskFailure is the error of JSON-RPC by which a task has failed: what a request that waited
// for it would have got. It is the end, so it says nothing of trying again.
func (h *Host) TaskFailure(ctx context.Context, t *tasks.Task) *wire.Error {
	if failed, ok := errors.AsType[*tasks.FailedError](t.Err); ok {
		return internal(failed.Text)
	}
	err := t.Err
	if !errors.As(err, new(*turns.Error)) {
		err = &turns.Error{Err: err} // it was logged where it failed
	}
	rerr := h.Translate(ctx, "", err)
	if rerr.Code == wire.CodeTryAgain {
		return Fault()
	}
	return &wire.Error{Code: rerr.Code, Message: rerr.Message, Data: rerr.Data, Fault: rerr.Fault}
}

// lastWord is how long a cancellation may take whose client has gone, and learnTime how long is waited for what
// becomes of it: less than a server on a pair of pipes takes to stop.
const (
	lastWord  = 8 * time.Second
	learnTime = 4 * time.Second
)

// CancelCall cancels the task of a call that no one comes back for, as its wait has failed with why. If the client reads
// that, it reads "call again" only when what the call did is undone: CancelCall returns the task if it has come to
// another end, or what is to be said.
func (h *Host) CancelCall(ctx context.Context, principal, id string, why error) (*tasks.Task, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	_, err := h.Tasks.Cancel(ctx, principal, id)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, why
	case err != nil:
		h.Log.WarnContext(ctx, "call not cancelled: it continues until its time is over", "error", err)
		return nil, ErrUnknown
	case !errors.Is(why, ErrStopping) && !errors.Is(why, ErrSessionEnded) && !errors.Is(why, turns.ErrLedger):
		return nil, why
	}
	ctx, enough := context.WithTimeout(ctx, learnTime)
	defer enough()
	for news, err := range h.Tasks.Follow(ctx, principal, id, tasks.NoEvents, nil) {
		switch t := news.Task; {
		case err != nil:
			return nil, ErrUnknown
		case t == nil || !t.Status.Ended():
		case t.Status == tasks.Cancelled && !leaves(t.End):
			return nil, why
		default:
			return t, nil
		}
	}
	return nil, ErrUnknown
}

// leaves reports whether an effect stays.
func leaves(end *turns.End) bool {
	report := turns.UndoReport(end.Result)
	return report != nil && (report.Final != "" || len(report.Outstanding) > 0)
}

// What protocols share that wait for tasks on a stream, or tell of them there.

// RelatedTaskKey is the member of _meta by which a message says to which task it belongs (MCP
// 2025-11-25, basic/utilities/tasks).
const RelatedTaskKey = "io.modelcontextprotocol/related-task"

// CodeLate is the code of the error that stands for an answer which did not come in time.
const CodeLate = -32001

// RelatedTask adds to an object, which may be nil, that it belongs to a task.
func RelatedTask(object json.RawMessage, id string) json.RawMessage {
	mark := append(wire.AppendString([]byte(`{"taskId":`), id), '}')
	b := append([]byte(`{"_meta":`), With(jsonview.Get(object, "_meta"), RelatedTaskKey, mark)...)
	if rest := With(object, "_meta", nil); len(rest) > len("{}") {
		return append(append(b, ','), rest[1:]...)
	}
	return append(b, '}')
}

// Rester is a [Way] of a request that can leave its place to others while it waits for what may
// take long; see [Exchange.Pause]. Questions do so by themselves.
type Rester interface {
	// Rest leaves the place; back takes one again, when there is one.
	Rest() (back func())
}

// RestOf has a request leave its place on a way where it has one there.
func RestOf(w Way) (back func()) {
	if r, ok := w.(Rester); ok {
		return r.Rest()
	}
	return func() {}
}

// Leaver is a [Way] of a request that can end without an answer, because its client gets that
// otherwise.
type Leaver interface {
	// Leave ends the request's context with [ErrLeft], and has no answer sent.
	Leave()
}

// ErrLeft says that the answer to a request is to be had by another.
var ErrLeft = error(gone("the request can be resumed"))

// Pass sends what a task reports, and says whether that is progress, which has clients wait on. A nil n sends nothing.
func (n *Notifier) Pass(e *tasks.Event) (progress bool) {
	switch {
	case n == nil:
	case e.Progress != nil:
		n.Progress(*e.Progress)
		return n.Token != nil
	case e.Log != nil:
		n.Log(*e.Log)
	}
	return false
}

// little is by how much progress grows when nothing has happened.
const little = 1e-9

// Alive repeats the last progress, if nothing was sent for so long: clients that wait only for
// a while take it for a sign that they do not wait in vain. As progress must grow, it grows by
// next to nothing, so that whatever the tool says next is more.
func (n *Notifier) Alive(silent time.Duration) {
	n.mu.Lock()
	p, last := n.shown, n.last
	n.mu.Unlock()
	if time.Since(last) < silent {
		return
	}
	p.Done += little * max(1, math.Abs(p.Done))
	if p.Done > p.Total {
		p.Total = 0
	}
	n.Progress(p)
}

// A request of a session may have begun a task whose name is not made of the request. A client
// cancels it by the request's id, at any replica: so that is remembered.

// requestTime is for how long it is remembered which task a request has begun.
const requestTime = 24 * time.Hour

// RememberRequest remembers which task a request of a session has begun. session is what only
// those know who are in it.
func (h *Host) RememberRequest(ctx context.Context, principal, session string, id jsontext.Value, task string) error {
	canonical, ok := wire.CanonicalID(id)
	if !ok {
		return nil
	}
	return durable.SetDocument(ctx, h.Core, principal, h.Core.DocumentName("request", session, canonical), h.Turns.Now().Add(requestTime), task)
}

// TaskOfRequest returns the id of the task that a request of a session has begun, as far as that
// was remembered; empty if it was not.
func (h *Host) TaskOfRequest(ctx context.Context, session string, id jsontext.Value) (task string, err error) {
	canonical, ok := wire.CanonicalID(id)
	if !ok {
		return "", nil
	}
	found, err := durable.ReadDocument[string](ctx, h.Core, h.Core.DocumentName("request", session, canonical))
	if err != nil {
		return "", err
	}
	return found.Value, nil
}
