// Package async is the dialect of the proposal for asynchronous tools, SEP-1391: a call with the
// parameter operation is answered at once, by a token of the client's own the operation is
// looked at with tools/async/status, and its result is read with tools/async/result. An
// operation is a task (internal/tasks).
//
// Its requests come in sessions of the revisions with a handshake, within the rules of MCP
// 2026-07-28, or by themselves; see [dialect.Guest]. What an operation asks is sent in a session
// together with the response to tools/async/status, and is shown in that otherwise.
//
// call.go begins operations, looks at them, and has what they ask.
package async

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
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
		if !bytes.Contains(m.Params, []byte(`"operation"`)) {
			return false
		}
		v := jsonview.Get(m.Params, "operation")
		return v != nil && string(v) != "null"
	}
	return m.Method == methodStatus || m.Method == methodResult
}

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

// Listed implements [dialect.Guest]: which are asynchronous, and for other clients, none that they cannot call.
func (d *async) Listed(t *engine.Program, c *dialect.Caller) (members string, listed bool) {
	if c != nil && c.Declared {
		if d.TaskMode(t) == engine.TasksForbidden {
			return `,"invocationMode":"sync"`, true
		}
		return `,"invocationMode":"async"`, true
	}
	return "", d.Refuse(t, c) == nil
}

// Refuse implements [dialect.Guest]: a tool that is always a task is not for clients that know none.
func (d *async) Refuse(t *engine.Program, c *dialect.Caller) *wire.Error {
	if d.TaskMode(t) != engine.TasksRequired || c != nil && c.Tasks {
		return nil
	}
	return wire.NewError(wire.CodeInvalidRequest, asyncText)
}

// Lengths of tokens, in bytes. The token alone protects the operation of a client that is not known: it must be hard to guess.
const (
	maxToken     = 1024
	leastUnknown = 22
)

var (
	longTokenText  = fmt.Sprintf("the token is too long: %d bytes are the most", maxToken)
	shortTokenText = fmt.Sprintf("the token is too easy to guess for a client that has not authenticated: it needs at least %d characters, and those at random, such as a UUID has", leastUnknown)
)

// readToken reads a token that names an operation.
func readToken(v jsontext.Value, at string) (string, *wire.Error) {
	if v == nil {
		return "", wire.NewError(wire.CodeInvalidParams, "params"+at+" is missing: it names the operation")
	}
	token, ok := jsonview.String(v)
	switch {
	case !ok || token == "":
		return "", wire.NewError(wire.CodeInvalidParams, "params"+at+" must be a string, and not empty")
	case len(token) > maxToken:
		return "", wire.NewError(wire.CodeInvalidParams, longTokenText)
	}
	return token, nil
}

// idOf is the id of an operation's task. The token of an unknown client is good in its session only; pipes have none.
func idOf(x *dialect.Exchange, token string) string {
	h := sha256.New()
	session := ""
	if x.Principal == "" && x.Header != nil {
		session = sessionOf(x)
	}
	for _, part := range []string{"operation", session, token} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return "operation-" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func sessionOf(x *dialect.Exchange) string {
	if x.Caller == nil {
		return ""
	}
	return x.Caller.Session
}

// find returns an operation of the client's, or [tasks.ErrNotFound].
func (d *async) find(ctx context.Context, x *dialect.Exchange, token string) (*tasks.Task, dialect.Note, error) {
	t, err := d.Tasks.Get(ctx, x.Principal, idOf(x, token))
	if err != nil {
		return nil, dialect.Note{}, err
	}
	return t, dialect.NoteOf(t), nil // no other task has such an id
}

// named is find for the operation whose token the parameters have.
func (d *async) named(ctx context.Context, x *dialect.Exchange) (*tasks.Task, dialect.Note, error) {
	token, rerr := readToken(jsonview.Get(x.Message.Params, "token"), ".token")
	if rerr != nil {
		return nil, dialect.Note{}, rerr
	}
	return d.find(ctx, x, token)
}

// Cancelled implements [dialect.Guest]. A request names its operation by its id in its session, or by the token.
func (d *async) Cancelled(ctx context.Context, x *dialect.Exchange) *wire.Error {
	request, session := dialect.Cancelled(x.Message), sessionOf(x)
	id, err := "", error(nil)
	token, named := jsonview.String(jsonview.Get(x.Message.Params, related, "token"))
	if named {
		id = idOf(x, token)
	} else if session != "" { // else another client of the same principal may have had the same id
		id, err = d.TaskOfRequest(ctx, session, request)
	}
	var t *tasks.Task
	if err == nil && id != "" {
		t, err = d.Tasks.Get(turns.ToCancel(ctx), x.Principal, id)
	}
	if err == nil && t != nil && !t.Status.Ended() {
		if n := dialect.NoteOf(t); n.Operation != "" && (!named || session == "" || bytes.Equal(n.Request, request)) {
			_, err = d.Tasks.Cancel(ctx, x.Principal, id)
		}
	}
	if err != nil && !errors.Is(err, tasks.ErrNotFound) {
		return d.translate(ctx, x, err)
	}
	return nil
}
