package async

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

func isNotFound(err error) bool { return errors.Is(err, tasks.ErrNotFound) }

// Statuses of operations.
const (
	statusSubmitted     = "submitted"
	statusWorking       = "working"
	statusInputRequired = "input_required"
	statusCompleted     = "completed"
	statusCanceled      = "canceled"
	statusFailed        = "failed"
	statusUnknown       = "unknown"
)

// statusOf is how an operation stands. One that is to be cancelled counts as that, though what it
// did may still be undone; one whose result is not shown any more has failed, and expired is
// true.
func (d *async) statusOf(t *tasks.Task, n *note) (status string, expired bool) {
	switch {
	case t.Status.Ended() && !d.Turns.Now().Before(t.Updated.Add(n.keepAlive())):
		return statusFailed, true
	case t.Cancelling:
		return statusCanceled, false
	}
	return [...]string{
		tasks.Queued: statusSubmitted, tasks.Working: statusWorking, tasks.InputRequired: statusInputRequired,
		tasks.Completed: statusCompleted, tasks.Failed: statusFailed, tasks.Cancelled: statusCanceled,
	}[t.Status], false
}

// status answers tools/async/status.
func (d *async) status(ctx context.Context, x *dialect.Exchange) ([]byte, error) {
	token, rerr := readToken(jsonview.Get(x.Message.Params, "token"), ".token")
	if rerr != nil {
		return nil, rerr
	}
	t, n, err := d.find(ctx, x, token)
	if errors.Is(err, tasks.ErrUnreadable) {
		d.Log.WarnContext(ctx, "operation not readable", "error", err)
		return []byte(`{"status":"` + statusUnknown + `"}`), nil
	}
	if err != nil {
		return nil, err
	}
	status, expired := d.statusOf(t, &n)
	b := wire.AppendString([]byte(`{"status":`), status)
	switch {
	case expired:
		b = wire.AppendString(append(b, `,"error":`...), "Operation has expired")
	case status == statusFailed:
		b = wire.AppendString(append(b, `,"error":`...), d.TaskFailure(ctx, t).Message)
	case status == statusInputRequired && sessionOf(x) == "":
		b = dialect.AppendInputRequests(append(b, `,"inputRequests":`...), t.Questions)
	}
	if sessionOf(x) != "" {
		d.ask(x, t, token)
	}
	return append(b, '}'), nil
}

// result answers tools/async/result.
func (d *async) result(ctx context.Context, x *dialect.Exchange) ([]byte, error) {
	token, rerr := readToken(jsonview.Get(x.Message.Params, "token"), ".token")
	if rerr != nil {
		return nil, rerr
	}
	t, n, err := d.find(ctx, x, token)
	if err != nil {
		return nil, err
	}
	switch status, expired := d.statusOf(t, &n); {
	case expired:
		return nil, wire.NewError(wire.CodeInvalidParams, expiredText)
	case status == statusFailed:
		return nil, wire.NewError(wire.CodeInvalidParams, "the operation has no result, as it has failed: "+d.TaskFailure(ctx, t).Message)
	case status != statusCompleted:
		return nil, wire.NewError(wire.CodeInvalidParams, "the operation has no result, as its status is "+status)
	}
	r, err := d.whole(ctx, x, t)
	if err != nil {
		return nil, err
	}
	var b []byte
	if x.Caller != nil && x.Caller.Result != nil {
		b, err = x.Caller.Result(r)
	} else {
		b, err = dialect.AppendToolResult(nil, r)
	}
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`{"result":`), b...), '}'), nil
}

// eventPage is how many events are read at once.
const eventPage = 100

// whole is the result of a task with the parts that the tool has yielded before.
func (d *async) whole(ctx context.Context, x *dialect.Exchange, t *tasks.Task) (*content.Result, error) {
	if t.Program == nil || !t.Program.Yields {
		return t.End.Result, nil
	}
	whole := *t.End.Result
	var parts content.Blocks
	for after := uint64(0); after < t.Events; {
		events, err := d.Tasks.Events(ctx, x.Principal, t.ID, after, eventPage)
		if err != nil {
			return nil, err
		}
		for i := range events {
			parts, after = append(parts, events[i].Content...), events[i].N
		}
		if len(events) < eventPage {
			break
		}
	}
	whole.Content = append(parts, whole.Content...)
	return &whole, nil
}
