package async

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Lengths of tokens, in bytes. Nothing but the token protects the operation of a client that is
// not known, so it has to be as hard to guess as 128 random bits in base64.
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

// idOf is the id of the task that an operation is. That of a client that is not known belongs to
// the session, where there is one: a token is good there only. On a pair of pipes there is
// no other, and the client may come back on another one.
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

// note is what is kept with the task.
type note struct {
	// Token is the client's, KeepAlive how long the result is shown after the end: so many
	// nanoseconds.
	Token     string `json:"token"`
	KeepAlive int64  `json:"keepAlive"`
	// Request is the id of the call.
	Request jsontext.Value `json:"request"`
	// Call identifies the call.
	Call []byte `json:"call"`
}

func (n *note) keepAlive() time.Duration { return time.Duration(n.KeepAlive) }

// noteOf reads a task's note. It is false of tasks that are no operations.
func noteOf(t *tasks.Task) (n note, ok bool) {
	ok = len(t.Note) > 0 && jsonv2.Unmarshal(t.Note, &n) == nil && n.Token != ""
	return n, ok
}

// find returns an operation of the client's, or [tasks.ErrNotFound].
func (d *async) find(ctx context.Context, x *dialect.Exchange, token string) (*tasks.Task, note, error) {
	t, err := d.Tasks.Get(ctx, x.Principal, idOf(x, token))
	if err != nil {
		return nil, note{}, err
	}
	n, ok := noteOf(t)
	if !ok {
		return nil, n, tasks.ErrNotFound
	}
	return t, n, nil
}

// Cancelled implements [dialect.Guest]. A request names its operation by its id, which is known in
// its session, or by the operation's token.
func (d *async) Cancelled(ctx context.Context, x *dialect.Exchange) *wire.Error {
	err := d.cancel(ctx, x)
	if err != nil {
		return d.translate(ctx, x, err)
	}
	return nil
}

func (d *async) cancel(ctx context.Context, x *dialect.Exchange) error {
	request := dialect.Cancelled(x.Message)
	if token, ok := jsonview.String(jsonview.Get(x.Message.Params, "_operation", "token")); ok {
		t, n, err := d.find(ctx, x, token)
		if err == nil && (sessionOf(x) == "" || bytes.Equal(n.Request, request)) && !t.Status.Ended() {
			_, err = d.Tasks.Cancel(ctx, x.Principal, t.ID)
		}
		return ignore(err)
	}
	if sessionOf(x) == "" {
		return nil // another client of the same principal may have had the same id
	}
	id, err := d.TaskOfRequest(ctx, sessionOf(x), request)
	if id == "" || err != nil {
		return err
	}
	t, err := d.Tasks.Get(ctx, x.Principal, id)
	if err != nil {
		return ignore(err)
	}
	if _, ok := noteOf(t); ok && !t.Status.Ended() {
		_, err = d.Tasks.Cancel(ctx, x.Principal, id)
	}
	return ignore(err)
}

// ignore drops the errors of operations that are not there: a cancellation may be late.
func ignore(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}
