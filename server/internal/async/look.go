package async

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/durable"
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
	if errors.Is(err, durable.ErrUnreadable) {
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
	r, err := d.TaskResult(ctx, x.Principal, t)
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
