package handshake

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Texts of refusals.
const (
	noSessionText   = "this needs a session: send initialize, and the " + wire.SessionHeader + " of its response with every request; tools can also be called without one, by tools/callSaga"
	goneSessionText = "there is no such session, or no longer: send initialize again"
)

// Reply implements [dialect.Sessions].
func (d *handshake) Reply(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	m := x.Message
	switch {
	case x.HTTPMethod != http.MethodPost:
		d.replyToOther(ctx, x, r)
	case x.Batch != nil || x.BatchError != nil:
		d.replyToBatch(ctx, x, r)
	case m.Method == "initialize" && m.ID != nil:
		d.replyToInitialize(ctx, x, r)
	case x.Header.Get(wire.SessionHeader) == "" && m.Reply == nil:
		d.replyWithoutSession(ctx, x, r)
	default:
		d.replyInSession(ctx, x, r)
	}
}

// replyInSession answers a message that was POSTed to a session.
func (d *handshake) replyInSession(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	m := x.Message
	s, rerr := d.sessionOf(x)
	if rerr != nil {
		id := m.ID
		if m.Reply != nil {
			id = nil // it is of our request; the error must not look like a response to one of theirs
		}
		r.Error(id, rerr)
		return
	}
	defer d.release(s)
	switch {
	case m.Reply != nil:
		if err := s.answered(m.Reply); err != nil {
			r.Error(nil, wire.Refuse(http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, err.Error()))
			return
		}
		r.Empty(http.StatusAccepted)
	case m.Notification():
		s.notified(m)
		r.Empty(http.StatusAccepted)
	case !methods[m.Method].lasting:
		ctx, cancel := sessionContext(ctx, s)
		defer cancel(nil)
		r.JSON(http.StatusOK, d.respond(ctx, x, s.peer))
	default:
		d.replyWithStream(ctx, x, r, s, []*wire.Message{m}, nil)
	}
}

// respond answers a request and returns the response.
func (d *handshake) respond(ctx context.Context, x *dialect.Exchange, p *peer) []byte {
	result, rerr := d.Dispatch(ctx, x, &known{d, p})
	return wire.AppendResponse(nil, x.Message.ID, result, rerr)
}

// replyToInitialize opens a session.
func (d *handshake) replyToInitialize(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	result, rerr := d.Dispatch(ctx, x, dialect.HandlerFunc(func(_ context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
		p, result, rerr := d.open(x.Message.Params)
		if rerr != nil {
			return nil, rerr
		}
		s, rerr := d.start(p, x)
		if rerr != nil {
			return nil, rerr
		}
		r.Header().Set(wire.SessionHeader, s.id)
		return result, nil
	}))
	r.Response(wire.AppendResponse(nil, x.Message.ID, result, rerr), rerr)
}

// replyWithoutSession answers a message without a session. A client of the saga
// proposal needs none, and yet may look around.
func (d *handshake) replyWithoutSession(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	m := x.Message
	method := methods[m.Method]
	switch {
	case m.Notification():
		r.Empty(http.StatusAccepted)
	case method.serve == nil || method.open:
		r.JSON(http.StatusOK, d.respond(ctx, x, nil))
	default:
		r.Error(m.ID, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, noSessionText))
	}
}

// replyToOther answers GET, which opens a stream, and DELETE, which ends a session.
func (d *handshake) replyToOther(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	allowed := "POST"
	if x.Header.Get(wire.SessionHeader) != "" {
		allowed = "GET, POST, DELETE"
	}
	if allowed == "POST" || x.HTTPMethod != http.MethodGet && x.HTTPMethod != http.MethodDelete {
		r.Header().Set("Allow", allowed)
		r.Error(nil, wire.Refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "only "+allowed+" is allowed"))
		return
	}
	s, rerr := d.sessionOf(x)
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	defer d.release(s)
	if x.HTTPMethod == http.MethodDelete {
		d.end(s)
		r.Empty(http.StatusNoContent)
		return
	}
	d.replyToGet(ctx, x, r, s)
}

// sessionOf returns the session that an HTTP request names, to be released.
func (d *handshake) sessionOf(x *dialect.Exchange) (*session, *wire.Error) {
	name := x.Header.Get(wire.SessionHeader)
	if name == "" {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, noSessionText)
	}
	s := d.sessions.use(name)
	if s == nil {
		return nil, wire.Refuse(http.StatusNotFound, wire.CodeInvalidRequest, goneSessionText)
	}
	if s.principal != x.Principal {
		d.release(s)
		d.Log.Info("request refused", "reason", "the session belongs to another principal")
		return nil, wire.Refuse(http.StatusForbidden, wire.CodeInvalidRequest, "the session belongs to somebody else")
	}
	return s, nil
}

// sessionContext returns a context for work that a session's request began: it
// ends with the session, not with the request's connection (MCP 2025-11-25,
// basic/transports: disconnection is no cancellation).
func sessionContext(request context.Context, s *session) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// Join implements [dialect.Sessions]. A request of the saga proposal needs no session, and
// is served whatever session it names; but a client that has one cancels by a notification
// there, and is using it.
func (d *handshake) Join(ctx context.Context, x *dialect.Exchange) (context.Context, func()) {
	if len(x.Header[wire.SessionHeader]) == 0 { // as most have none
		return ctx, nil
	}
	if version := x.Header.Get(wire.VersionHeader); version != "" && !slices.Contains(versions, version) {
		return ctx, nil // revisions of others have no sessions
	}
	s := d.sessions.use(x.Header.Get(wire.SessionHeader))
	if s == nil {
		return ctx, nil
	}
	if s.principal != x.Principal {
		d.release(s) // whoever only names it is not using it
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	_, err := s.begin(x.Message, cancel)
	return ctx, func() {
		if err == nil {
			s.finish(x.Message.ID)
		}
		cancel(nil)
		d.release(s)
	}
}

// notified handles a notification of the client.
func (s *session) notified(m *wire.Message) {
	if id := dialect.Cancelled(m); id != nil {
		s.cancelled(id)
	}
}
