package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Parts of messages that are the same in all revisions of MCP.

// RequestMethods are the MCP requests that ask steps.
var RequestMethods = map[steps.Kind]string{
	steps.Elicitation: "elicitation/create", steps.Sampling: "sampling/createMessage", steps.Roots: "roots/list",
}

// Tool finds the tool that is called, and checks that its arguments are an object.
func (h *Host) Tool(ctx context.Context, name string, arguments jsontext.Value) (*engine.Program, json.RawMessage, error) {
	t, err := h.named(ctx, engine.KindTool, name)
	if err == nil && arguments != nil && arguments.Kind() != '{' {
		err = invalid("params.arguments must be an object")
	}
	return t, json.RawMessage(arguments), err
}

// Prompt finds a prompt.
func (h *Host) Prompt(ctx context.Context, name string) (*engine.Program, error) {
	return h.named(ctx, engine.KindPrompt, name)
}

// named finds a tool or a prompt that the caller may use.
func (h *Host) named(ctx context.Context, kind engine.Kind, name string) (*engine.Program, error) {
	t, err := h.permitted(ctx, h.Tools.Find(kind, name))
	if t == nil && err == nil {
		err = invalid(fmt.Sprintf("there is no %[1]s of that name; %[1]ss/list lists the %[1]ss of this server", kind))
	}
	return t, err
}

// EndError is the error with which a prompt or a resource has ended, or nil: err, or what only the result of a tool
// could say, such as that the saga was cancelled.
func EndError(end turns.End, err error) error {
	if err == nil && end.Result != nil {
		err = wire.NewError(wire.CodeInvalidRequest, end.Result.Content.Text())
	}
	return err
}

// ToolResult is a CallToolResult.
func ToolResult(r *content.Result) ([]byte, error) {
	if r.StructuredContent != nil || r.Meta != nil {
		return wire.Marshal(r)
	}
	// By hand, which takes a tenth of the time, what most results consist of.
	b, err := r.Content.AppendJSON(append(make([]byte, 0, 512), `{"content":`...))
	if err != nil {
		return nil, err
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}'), nil
}

// AppendContents writes a list of ResourceContents.
func AppendContents(b []byte, contents []content.ResourceContents) []byte {
	type object struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType,omitzero"`
		Text     *string `json:"text,omitzero"`
		Blob     []byte  `json:"blob,omitzero"`
	}
	list := make([]object, len(contents))
	for i, c := range contents {
		if list[i] = (object{URI: c.URI, MIMEType: c.MIMEType, Blob: c.Blob}); c.Blob == nil {
			list[i].Text = &c.Text
		}
	}
	raw, _ := wire.Marshal(list) // strings and bytes always encode
	return append(b, raw...)
}

// Fault is the error of a failure inside, of which a client learns nothing.
func Fault() *wire.Error {
	return &wire.Error{Code: wire.CodeInternalError, Message: "internal error", Fault: true}
}

// Fixed texts. What a client learns of a refused token does not depend on the cause.
const (
	rejectedText  = "the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga"
	stopsText     = "the server stops: send the same request again"
	unsettledText = "what the tool has done is not known yet: send the same request again"
	taskOnlyText  = "this tool takes long, and runs as a task only: call it with tools/call, of MCP 2026-07-28 with the extension " + TasksExtension + ", or of a revision with a handshake"
	timeoutText   = "the tool took too long; the same request may be sent again"
)

// translations are what the client learns of errors that say all by themselves. None of them is another.
var translations = []struct {
	of     error
	answer func(text string) *wire.Error
	text   string
}{
	{turns.ErrHookLate, wire.TryAgain, "what the server asks before it begins has not answered in time, so nothing was done: send the same request again"},
	{turns.ErrLedger, wire.TryAgain, "what the server must remember of this cannot be written down at present: send the same request again"},
	{turns.ErrUnderWay, wire.TryAgain, "the same request was sent before and is still being worked on: send it again later"},
	{turns.ErrNewer, wire.TryAgain, "this server is older than the saga: send the same request again"},
	{turns.ErrOtherLedger, wire.TryAgain, "another ledger than this server's looks after what was done: send the same request again, to a server that has that one"},
	{turns.ErrEarly, wire.TryAgain, "this server's clock is behind the saga: send the same request again"},
	{engine.ErrHanging, wire.TryAgain, "too many calls of this tool have not come to an end here: send the same request again later"},
	{turns.ErrLedgerFull, bounded("ledger"), "the server remembers too many sagas of yours: end some, or wait until their time is over"},
	{tasks.ErrTooMany, bounded("tasks"), "too many tasks and calls of yours are under way: wait until some have ended, or cancel some"},
	{tasks.ErrNotFound, invalid, "there is no such task, or not any more"},
	{tasks.ErrExists, invalid, "there is a task of that id already: choose another"},
	{tasks.ErrCursor, invalid, tasks.ErrCursor.Error()},
	{turns.ErrLate, internal, turns.ErrLate.Error() + "; the same resumeToken asks again, as long as it is good"},
	{turns.ErrNotKept, invalid, turns.ErrNotKept.Error()},
	{turns.ErrTask, invalid, "the saga of this request goes on as a task: send the same request with the extension " + TasksExtension + " to be given the task, or end it with tools/cancelSaga"},
	{turns.ErrKeyReused, invalid, turns.ErrKeyReused.Error()},
	{turns.ErrKeyUnreadable, invalid, turns.ErrKeyUnreadable.Error()},
}

func invalid(text string) *wire.Error { return wire.NewError(wire.CodeInvalidParams, text) }

func internal(text string) *wire.Error { return wire.NewError(wire.CodeInternalError, text) }

// bounded returns the errors of what a caller has too much of.
func bounded(bound string) func(text string) *wire.Error {
	return func(text string) *wire.Error {
		rerr := wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, text)
		rerr.Bound = bound
		return rerr
	}
}

// Translate decides what the client learns of an error. Those of turns are logged
// already; it logs the rest.
func (h *Host) Translate(ctx context.Context, name string, err error) *wire.Error {
	if rerr, ok := errors.AsType[*wire.Error](err); ok {
		return rerr
	}
	if text := final(err); text != "" {
		return internal(text)
	}
	if why, ok := errors.AsType[gone](err); ok { // which is no fault, and not logged as one
		if turn, ok := errors.AsType[*turns.Error](err); ok && !turn.Once && why == ErrStopping { // the client has a token or a key
			return wire.TryAgain(stopsText)
		}
		return internal(why.Error())
	}
	if refused, ok := errors.AsType[*turns.RefusedError](err); ok { // it comes from a record
		return &wire.Error{Code: refused.Code, Message: refused.Message, Data: refused.Data}
	}
	for _, known := range translations {
		if errors.Is(err, known.of) {
			return known.answer(known.text)
		}
	}
	var arguments *engine.ArgumentsError
	var route *turns.RouteError
	var failed *engine.ToolError
	var answers *engine.AnswerError
	var large *turns.RequestTooLargeError
	panicked := errors.As(err, new(*engine.PanicError))
	switch {
	case errors.As(err, &arguments):
		return invalid(arguments.Error())
	case errors.As(err, &route):
		return invalid(route.Error())
	case errors.As(err, new(*engine.UnsettledError)):
		return wire.TryAgain(unsettledText)
	case errors.As(err, &failed) && failed.Disclosed:
		// Of a prompt or a resource, which have no results that say that they are errors. What
		// lies with the caller and the user, such as a question declined, is no fault inside.
		return invalid(failed.Text)
	case errors.As(err, &failed):
		return internal(failed.Text)
	case errors.Is(err, tokens.ErrRejected):
		return invalid(rejectedText)
	case errors.As(err, &answers):
		return invalid(answers.Error())
	case errors.As(err, &large):
		rerr := invalid(fmt.Sprintf(
			"the arguments and answers are too large for a tool that asks: what it has to remember takes %d bytes, and %d are the most; send less", large.Size, large.Limit))
		rerr.Data = fmt.Appendf(nil, `{"size":%d,"limit":%d}`, large.Size, large.Limit)
		return rerr
	case !panicked && errors.Is(err, context.DeadlineExceeded):
		return internal(timeoutText)
	case !panicked && errors.Is(err, context.Canceled):
		h.Log.InfoContext(ctx, "request cancelled", "method", name, "error", err)
	case !errors.As(err, new(*turns.Error)):
		h.Log.ErrorContext(ctx, "turn failed", "method", name, "error", err)
	}
	return Fault()
}

// Stopped is the result of a call that broke off with err: the text, and what was undone of what it had done.
func Stopped(err error, text string) *content.Result {
	if undone, ok := errors.AsType[*engine.UndoneError](err); ok && undone.Report != nil {
		return engine.UndoneWith(undone.Report, text, true).Result
	}
	r := content.Resultf("%s", text)
	r.IsError = true
	return r
}

// final is what is said of an error of a request that must not be sent again: it would begin another saga, and
// this one has done what is final, or may have, or has left something. Of others it is empty.
func final(err error) string {
	var logged *turns.Error
	if !errors.As(err, &logged) || !logged.Once {
		return ""
	}
	if unsettled, ok := errors.AsType[*engine.UnsettledError](err); ok {
		return fmt.Sprintf("it is not known yet whether the tool has done %q, which is final: do not call it again before you have found out", unsettled.Effect)
	}
	undone, ok := errors.AsType[*engine.UndoneError](err)
	if !ok || undone.Report == nil {
		return ""
	}
	why, late := "the tool failed", errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*engine.PanicError))
	cut := errors.As(err, new(gone)) || errors.Is(err, context.Canceled)
	if late {
		why = "the tool took too long"
	} else if cut {
		why = "the call was broken off"
	}
	switch report := undone.Report; {
	case report.Final != "":
		return fmt.Sprintf("%s, but %q is done, which is final: the same call would do it again", why, report.Final)
	case (late || cut) && len(report.Outstanding) > 0:
		return fmt.Sprintf("%s, and not all that it did is undone: %s", why, strings.Join(report.Outstanding, ", "))
	}
	return ""
}

// codeMalformed stands for an error of the client's that cannot be read.
const codeMalformed = -32602

// ReadAnswer reads a client's response to one of our requests, whose ids are
// numbers, from what [wire.Parse] has found valid. The result's form is for the engine to check; an error that is none is
// an error all the same. An id that is not ours comes back as 0, which is no question's.
func ReadAnswer(raw jsontext.Value) (id uint64, a steps.Answer) {
	var number, result, wrong jsontext.Value
	for name, v := range jsonview.Members(raw) {
		switch string(name) {
		case "id":
			number = v
		case "result":
			result = v
		case "error":
			wrong = v
		}
	}
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0, a
	}
	if wrong == nil || wrong.Kind() == 'n' && result != nil && result.Kind() != 'n' { // some write both
		a.Result = json.RawMessage(result)
		return id, a
	}
	var failure steps.ClientError
	if wrong.Kind() != '{' || jsonv2.Unmarshal(wrong, &failure) != nil {
		failure = steps.ClientError{Code: codeMalformed, Message: "the client's error is malformed"}
	}
	a.Error = &failure
	return id, a
}

// cancelMethod is the notification by which either side takes back a request.
const cancelMethod = "notifications/cancelled"

// Cancelled returns the id of the request that a message takes back, as it was written;
// nil if it does not. A request that is unknown or answered is to be ignored (MCP,
// basic/patterns/cancellation).
func Cancelled(m *wire.Message) jsontext.Value {
	if m.Method != cancelMethod || m.ID != nil {
		return nil
	}
	return jsonview.Get(m.Params, "requestId")
}

// Cancellation is the notification that takes back the request with that id, and why.
func Cancellation(id []byte, why error) (method string, params json.RawMessage) {
	b := append([]byte(`{"requestId":`), id...)
	reason := why.Error()
	if errors.Is(why, context.Canceled) {
		reason = ErrCancelled.Error()
	}
	return cancelMethod, append(wire.AppendString(append(b, `,"reason":`...), reason), '}')
}

// Progress beyond this rate is left out: what comes later says more. The first
// messages and the one that says "all done" always go out.
const (
	progressBurst    = 32
	progressInterval = 20 * time.Millisecond
)

// unencodable stands for data of a log message that is not JSON, which is its author's
// mistake; the turn continues.
var unencodable = json.RawMessage(strconv.Quote("this message cannot be shown"))

// Notifier sends a client the progress and log messages of one request that it wants (MCP,
// basic/utilities/progress and server/utilities/logging). It is silent after Close.
type Notifier struct {
	// Way is the way to the client.
	Way Way
	// Token is the request's progressToken; nil if the client wants no progress.
	Token jsontext.Value
	// Level is that of the least severe log message that the client wants; nil if it
	// wants none.
	Level *slog.LevelVar
	// Wordless: the client's revision has no messages in progress.
	Wordless bool

	mu     sync.Mutex
	closed bool
	sent   int
	shown  engine.Progress // the last that was sent
	last   time.Time       // when
}

var _ interface {
	engine.Notifier
	engine.Disconnecter
} = (*Notifier)(nil)

// Progress implements [engine.Notifier]. Progress must grow over the whole request,
// which may have several turns: what does not is not passed on.
func (n *Notifier) Progress(p engine.Progress) {
	if n.Token == nil {
		return
	}
	said := struct {
		Token    jsontext.Value `json:"progressToken"`
		Progress float64        `json:"progress"`
		Total    float64        `json:"total,omitzero"`
		Message  string         `json:"message,omitzero"`
	}{Token: n.Token, Progress: p.Done}
	if p.Total > 0 && !math.IsInf(p.Total, 0) {
		said.Total = p.Total
	}
	if !n.Wordless {
		said.Message = p.Message
	}
	b, err := wire.Marshal(said)
	if err != nil { // not a number
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	soon := n.sent >= progressBurst && now.Sub(n.last) < progressInterval
	complete := said.Total > 0 && p.Done >= said.Total
	if n.closed || n.sent > 0 && p.Done <= n.shown.Done || soon && !complete {
		return
	}
	n.shown, n.last = p, now
	n.sent++
	n.Way.Notify("notifications/progress", b)
}

// Log implements [engine.Notifier].
func (n *Notifier) Log(l engine.Log) {
	if n.Level == nil || l.Level < n.Level.Level() {
		return
	}
	data, err := json.Marshal(l.Data) // authors know its rules
	if err != nil {
		data = unencodable
	}
	b, _ := wire.Marshal(struct { // strings and checked JSON always encode
		Level  string          `json:"level"`
		Logger string          `json:"logger,omitzero"`
		Data   json.RawMessage `json:"data"`
	}{engine.LevelName(l.Level), l.Logger, data})
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.Way.Notify("notifications/message", b)
	}
}

// Disconnect implements [engine.Disconnecter].
func (n *Notifier) Disconnect(retry time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.Way.Hangup(retry)
	}
}

// Close silences the notifier. When it returns nothing is being sent.
func (n *Notifier) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}
