// Package async is the dialect of the proposal for asynchronous tools, SEP-1391: a call with the
// parameter operation is answered at once, by a token of the client's own the operation is
// looked at with tools/async/status, and its result is read with tools/async/result. An
// operation is a task (internal/tasks).
//
// Its requests come in sessions of the revisions with a handshake, within the rules of MCP
// 2026-07-28, or by themselves; see [dialect.Guest]. What an operation asks is sent in a session
// together with the response to tools/async/status, and is shown in that otherwise.
//
// call.go begins operations, look.go looks at them, questions.go is what they ask, names.go how
// they are found.
package async

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

const (
	methodCall   = "tools/call"
	methodStatus = "tools/async/status"
	methodResult = "tools/async/result"
)

type async struct{ *dialect.Host }

// New is of the type [dialect.New]. Without tasks there is nothing of this.
func New(h *dialect.Host) (dialect.Dialect, error) {
	if !h.OffersTasks() {
		return nil, nil
	}
	d := &async{h}
	h.Guest = d
	return d, nil
}

var _ dialect.Guest = (*async)(nil)

func (*async) Name() string { return "asynchronous tools (SEP-1391)" }

func (d *async) Match(m *wire.Message, _ http.Header) bool {
	switch {
	case m.ID == nil:
		return false
	case m.Method == methodCall: // most have the word nowhere
		return bytes.Contains(m.Params, []byte(`"operation"`)) && given(jsonview.Get(m.Params, "operation"))
	}
	return m.Method == methodStatus || m.Method == methodResult
}

// given reports whether an optional member is there.
func given(v []byte) bool { return v != nil && string(v) != "null" }

func (d *async) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	if x.Client != nil {
		return nil, wire.NewError(wire.CodeInvalidRequest, "there are no operations on this connection: leave out params.operation")
	}
	serve := d.call
	switch x.Message.Method {
	case methodStatus:
		serve = d.status
	case methodResult:
		serve = d.result
	}
	b, err := serve(ctx, x)
	if err != nil {
		return nil, d.translate(ctx, x, err)
	}
	return b, nil
}

// Texts of errors.
const (
	notFoundText = "Failed to retrieve operation: Operation not found"
	expiredText  = "Failed to retrieve operation: Operation has expired"
	tokenText    = "params.operation.token is that of an operation that was begun before: choose another for each call"
	syncText     = "this tool cannot be called asynchronously: leave out params.operation"
	asyncText    = "this tool can only be called asynchronously: declare the experimental capability " + capability + ", and send params.operation"
)

func (d *async) translate(ctx context.Context, x *dialect.Exchange, err error) *wire.Error {
	var unsupported *engine.UnsupportedError
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return wire.NewError(wire.CodeInvalidParams, notFoundText)
	case errors.Is(err, tasks.ErrExists):
		return wire.NewError(wire.CodeInvalidParams, tokenText)
	case errors.As(err, &unsupported):
		return wire.NewError(wire.CodeInvalidParams, unsupported.Error())
	}
	return d.Translate(ctx, x.Message.Method, err)
}

// capability is how a client declares that it knows asynchronous tools.
const capability = "asyncTools"

func (*async) Capability() string { return capability }

// Listed implements [dialect.Guest]. A client that knows asynchronous tools sees which they are. Others do
// not see those that they cannot call.
func (d *async) Listed(t *engine.Program, c *dialect.Caller) (members string, listed bool) {
	if c != nil && c.Declared {
		if d.TaskMode(t) == engine.TasksForbidden {
			return `,"invocationMode":"sync"`, true
		}
		return `,"invocationMode":"async"`, true
	}
	return "", d.Refuse(t, c) == nil
}

// Refuse implements [dialect.Guest]: a tool that is always a task is not called by a client that
// knows tasks neither from here nor from its own revision.
func (d *async) Refuse(t *engine.Program, c *dialect.Caller) *wire.Error {
	if d.TaskMode(t) != engine.TasksRequired || c != nil && c.Tasks {
		return nil
	}
	return wire.NewError(wire.CodeInvalidRequest, asyncText)
}
