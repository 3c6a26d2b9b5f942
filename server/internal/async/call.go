package async

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// policy is how turns are asked for. An operation hands out no tokens of turns.
var policy = turns.Policy{Purpose: "operation"}

// call begins an operation, or gives one answers.
func (d *async) call(ctx context.Context, x *dialect.Exchange) ([]byte, error) {
	p, rerr := dialect.ReadParams(x.Message.Params, "name", "inputResponses")
	if rerr != nil {
		return nil, rerr
	}
	t, args, err := d.Tool(ctx, p.Name, p.Arguments)
	if err != nil {
		return nil, err
	}
	if d.TaskMode(t) == engine.TasksForbidden {
		return nil, wire.NewError(wire.CodeInvalidParams, syncText)
	}
	operation := jsontext.Value(jsonview.Get(x.Message.Params, "operation"))
	if operation.Kind() != '{' {
		return nil, wire.WrongParam("/operation")
	}
	token := ""
	if v := jsonview.Get(operation, "token"); v != nil || p.Answers != nil {
		if token, rerr = readToken(v, ".operation.token"); rerr != nil {
			return nil, rerr
		}
	}
	if p.Answers != nil {
		return d.answer(ctx, x, t, token, p.Answers)
	}
	n := dialect.Note{Operation: token, Request: x.Message.ID, Call: dialect.DigestCall(p.Name, args)}
	keepAlive, rerr := readKeepAlive(jsonview.Get(operation, "keepAlive"), t)
	if rerr != nil {
		return nil, rerr
	}
	n.KeepAlive = int64(keepAlive)
	return d.start(ctx, x, t, args, n)
}

// start begins an operation. One without a token gets one: the client's idempotency key, if there is one.
func (d *async) start(ctx context.Context, x *dialect.Exchange, t *engine.Program, args json.RawMessage, n dialect.Note) ([]byte, error) {
	q := x.Turn(policy)
	own, again := n.Operation != "", false
	if !own {
		var rerr *wire.Error
		if q.IdempotencyKey, rerr = d.IdempotencyKey(x); rerr != nil {
			return nil, rerr
		}
		if n.Operation, again = q.IdempotencyKey, q.IdempotencyKey != ""; !again {
			n.Operation = rand.Text()
		}
	}
	if x.Principal == "" && len(n.Operation) < leastUnknown {
		return nil, wire.NewError(wire.CodeInvalidParams, shortTokenText)
	}
	raw, _ := wire.Marshal(n)                                       // strings and checked JSON always encode
	q.Notifier = nil                                                // the request ends before the operation has anything to tell
	q.Program, q.Arguments, q.Client = t, args, steps.AllFeatures() // one that has said nothing of itself sends an error for what it cannot do
	if x.Caller != nil {
		q.Client = x.Caller.Features
	}
	id := idOf(x, n.Operation)
	task, err := d.Tasks.Start(ctx, tasks.Start{Request: q, Account: x.LedgerAccount(sessionOf(x)), Shared: x.Shares(), AtOnce: true, ID: id, Keep: time.Duration(n.KeepAlive), Note: raw})
	if errors.Is(err, tasks.ErrExists) && again {
		var known dialect.Note
		if task, known, err = d.find(ctx, x, n.Operation); err == nil && !bytes.Equal(known.Call, n.Call) {
			return nil, turns.ErrKeyReused
		}
		n = known
	}
	if err != nil {
		return nil, err
	}
	if session := sessionOf(x); session != "" {
		if err := d.RememberRequest(ctx, x.Principal, session, x.Message.ID, id); err != nil {
			d.Log.WarnContext(ctx, "an operation cannot be cancelled by the id of its request", "error", err)
		}
	}
	if why := context.Cause(ctx); errors.Is(why, dialect.ErrCancelled) || why != nil && x.Header == nil {
		// It was cancelled before anybody could see that there is an operation.
		if _, err := d.Tasks.Cancel(context.WithoutCancel(ctx), x.Principal, id); err != nil {
			return nil, err
		}
	}
	shown := ""
	if !own {
		shown = n.Operation
	}
	return d.begun(task, &n, shown), nil
}

// begun is the result of a call: what the model reads meanwhile, and how the operation stands.
func (d *async) begun(t *tasks.Task, n *dialect.Note, token string) []byte {
	name := "The tool"
	if t.Program != nil {
		name = t.Program.Name
	}
	b := append(make([]byte, 0, 256), `{"content":[{"type":"text","text":`...)
	b = wire.AppendString(b, name+" works on this in the background. The result can be read when it has ended.")
	b = append(b, `}],"operation":{`...)
	if token != "" {
		b = append(wire.AppendString(append(b, `"token":`...), token), ',')
	}
	b = appendSeconds(append(b, `"keepAlive":`...), time.Duration(n.KeepAlive))
	if t.Poll > 0 {
		b = appendSeconds(append(b, `,"pollFrequency":`...), t.Poll)
	}
	status, _ := d.statusOf(t, n)
	return append(wire.AppendString(append(b, `,"status":`...), status), `}}`...)
}

func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', -1, 64)
}

// readKeepAlive reads how long the client wants the result kept, in seconds, or null for ever, up to what the author has said.
func readKeepAlive(v jsontext.Value, t *engine.Program) (time.Duration, *wire.Error) {
	most := max(t.Tasks.Keep, t.Tasks.TTL)
	switch v.Kind() {
	case jsontext.KindInvalid:
		return t.Tasks.Keep, nil
	case 'n':
		return most, nil
	case '0':
		seconds, err := strconv.ParseFloat(string(v), 64)
		if (err == nil || errors.Is(err, strconv.ErrRange)) && seconds >= 0 && !math.IsNaN(seconds) {
			return time.Duration(min(seconds, most.Seconds()) * float64(time.Second)), nil
		}
	}
	return 0, wire.NewError(wire.CodeInvalidParams, "params.operation.keepAlive must be a number of seconds, and not less than 0, or null")
}

// statuses are those of operations.
var statuses = [...]string{
	tasks.Queued: "submitted", tasks.Working: "working", tasks.InputRequired: "input_required",
	tasks.Completed: "completed", tasks.Failed: "failed", tasks.Cancelled: "canceled",
}

// statusOf is how an operation stands. One that is to be cancelled counts as that, though its undo may be under way; one whose
// result is not shown any more has failed, and expired is true.
func (d *async) statusOf(t *tasks.Task, n *dialect.Note) (status string, expired bool) {
	switch {
	case t.Status.Ended() && !t.Now.Before(t.Updated.Add(time.Duration(n.KeepAlive))):
		return statuses[tasks.Failed], true
	case t.Cancelling:
		return statuses[tasks.Cancelled], false
	}
	return statuses[t.Status], false
}

// status answers tools/async/status.
func (d *async) status(ctx context.Context, x *dialect.Exchange) ([]byte, error) {
	t, n, err := d.named(ctx, x)
	if errors.Is(err, durable.ErrUnreadable) {
		d.Log.WarnContext(ctx, "operation not readable", "error", err)
		return []byte(`{"status":"unknown"}`), nil
	}
	if err != nil {
		return nil, err
	}
	status, expired := d.statusOf(t, &n)
	b := wire.AppendString([]byte(`{"status":`), status)
	switch {
	case expired:
		b = wire.AppendString(append(b, `,"error":`...), "Operation has expired")
	case status == statuses[tasks.Failed]:
		b = wire.AppendString(append(b, `,"error":`...), d.TaskFailure(ctx, t).Message)
	case status == statuses[tasks.InputRequired] && sessionOf(x) == "":
		b = dialect.AppendInputRequests(append(b, `,"inputRequests":`...), t.Questions)
	}
	if sessionOf(x) != "" {
		d.ask(x, t, n.Operation)
	}
	return append(b, '}'), nil
}

// result answers tools/async/result.
func (d *async) result(ctx context.Context, x *dialect.Exchange) ([]byte, error) {
	t, n, err := d.named(ctx, x)
	if err != nil {
		return nil, err
	}
	switch status, expired := d.statusOf(t, &n); {
	case expired:
		return nil, wire.NewError(wire.CodeInvalidParams, expiredText)
	case status == statuses[tasks.Failed]:
		return nil, wire.NewError(wire.CodeInvalidParams, "the operation has no result, as it has failed: "+d.TaskFailure(ctx, t).Message)
	case status != statuses[tasks.Completed]:
		return nil, wire.NewError(wire.CodeInvalidParams, "the operation has no result, as its status is "+status)
	}
	r, err := d.TaskResult(ctx, x.Principal, t)
	if err != nil {
		return nil, err
	}
	var b []byte
	if x.Caller != nil && x.Caller.Result != nil {
		b, err = x.Caller.Result(r)
	} else {
		b, err = dialect.ToolResult(r)
	}
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`{"result":`), b...), '}'), nil
}

// In a session an operation asks by requests when the client looks at it; their _operation says which one it is. Their ids are made
// of the operation's id and the question's: an answer finds its question on any replica, and after a restart.

// questionID is the id of the request that asks a question.
func questionID(operation, question string) uint64 {
	h := sha256.Sum256([]byte(operation + "\x00" + question)) // the first has none in it
	return dialect.LeastQuestion + binary.BigEndian.Uint64(h[:])%dialect.LeastQuestion
}

// ask sends what the client was not asked in this session and can be asked, and takes back what needs no answer any more.
func (d *async) ask(x *dialect.Exchange, t *tasks.Task, token string) {
	c := x.Caller
	if c.Asked == nil || x.Way == nil {
		return
	}
	open := make(map[uint64]bool, len(t.Questions))
	for _, q := range t.Questions {
		open[questionID(t.ID, q.ID)] = true
	}
	for _, id := range c.Asked.About(token) {
		if !open[id] {
			c.Asked.Remove(id)
			method, params := dialect.Cancellation(strconv.AppendUint(nil, id, 10), errAnswered)
			x.Way.Notify(method, within(params, token))
		}
	}
	poster, ok := x.Way.(dialect.Poster)
	if !ok || t.Cancelling {
		return
	}
	for _, q := range t.Questions {
		id := questionID(t.ID, q.ID)
		if !c.Features.Has(q.Needs) {
			continue
		}
		method, params, err := c.Question(q)
		if err != nil || !c.Asked.Add(id, token) {
			continue
		}
		if !poster.Post(id, method, within(params, token)) {
			c.Asked.Remove(id)
			continue
		}
		c.Posted = append(c.Posted, id)
	}
}

var errAnswered = errors.New("the answer is not needed any more")

// related is the member of a message that says to which operation it belongs.
const related = "_operation"

// within adds to the parameters of a message that it belongs to an operation.
func within(params json.RawMessage, token string) json.RawMessage {
	b := append(wire.AppendString([]byte(`{"_operation":{"token":`), token), '}')
	if len(params) > 2 { // it has members
		b = append(b, ',')
		return append(b, params[1:]...)
	}
	return append(b, '}')
}

// Answered implements [dialect.Guest]. An answer names its operation, but for an error, which has no place for that.
func (d *async) Answered(ctx context.Context, x *dialect.Exchange, id uint64, about string, a steps.Answer) (taken bool, rerr *wire.Error) {
	token := about
	if a.Error == nil {
		said, ok := jsonview.String(jsonview.Get(a.Result, related, "token"))
		switch {
		case about == "" && !ok:
			return false, nil
		case about != "" && said != about:
			return true, wire.NewError(wire.CodeInvalidParams, "result._operation.token must be that of the question, as it was in its params")
		}
		token = said
		a.Result = dialect.With(a.Result, related, nil)
	}
	if token == "" {
		return false, nil
	}
	t, _, err := d.find(ctx, x, token)
	if errors.Is(err, tasks.ErrNotFound) {
		return about != "", nil
	}
	if err != nil {
		return true, d.translate(ctx, x, err)
	}
	i := slices.IndexFunc(t.Questions, func(q steps.Step) bool { return questionID(t.ID, q.ID) == id })
	if i < 0 {
		return about != "", nil // it is answered already
	}
	a.StepID = t.Questions[i].ID
	if _, err := d.Tasks.Answer(ctx, x.Principal, t.ID, []steps.Answer{a}); err != nil {
		return true, d.translate(ctx, x, err)
	}
	return true, nil
}

// answer gives an operation the answers to what tools/async/status has shown.
func (d *async) answer(ctx context.Context, x *dialect.Exchange, p *engine.Program, token string, responses jsontext.Value) ([]byte, error) {
	list, err := dialect.InputResponses(responses)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Result = dialect.With(list[i].Result, related, nil)
	}
	t, n, err := d.find(ctx, x, token)
	if err != nil {
		return nil, err
	}
	if t.Program != nil && t.Program.Name != p.Name {
		return nil, wire.NewError(wire.CodeInvalidParams, "the operation is of another tool")
	}
	if t, err = d.Tasks.Answer(ctx, x.Principal, t.ID, list); err != nil {
		return nil, err
	}
	return d.begun(t, &n, ""), nil
}
