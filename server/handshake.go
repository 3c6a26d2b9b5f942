package server

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// handshake is the dialect of MCP 2024-11-05 to 2025-11-25: a client introduces
// itself once, and the server asks it by requests of its own. A suspended saga
// becomes such requests, and their answers resume it through the same sealed
// token as everywhere; only that this token does not leave the server.
//
// Over HTTP this is the Streamable HTTP transport. The transport of 2024-11-05
// with two endpoints is not served; clients of that revision find this server
// over stdio.
type handshake struct {
	*Server
	sessions sessionTable
}

// Texts of refusals.
const (
	noSessionText   = "this needs a session: send initialize, and the " + wire.SessionHeader + " of its response with every request; tools can also be called without one, by tools/callSaga"
	goneSessionText = "there is no such session, or no longer: send initialize again"
)

// servePost answers a message that was POSTed.
func (d *handshake) servePost(w http.ResponseWriter, r *http.Request, c caller, m *wire.Message) {
	if m.Method == "initialize" && m.ID != nil {
		d.serveInitialize(w, c, m)
		return
	}
	if r.Header.Get(wire.SessionHeader) == "" && m.Reply == nil {
		d.serveStranger(w, r, c, m)
		return
	}
	id := m.ID
	if m.Reply != nil {
		id = nil // it is of our request; the error must not look like a response to one of theirs
	}
	s := d.sessionOf(w, r, c, id)
	if s == nil {
		return
	}
	defer d.release(s)
	switch {
	case m.Reply != nil:
		if err := s.answered(m.Reply); err != nil {
			d.writeError(w, http.StatusRequestEntityTooLarge, wire.NewError(wire.CodeInvalidRequest, err.Error()))
			return
		}
		w.WriteHeader(http.StatusAccepted)
	case m.Notification():
		s.notified(m)
		w.WriteHeader(http.StatusAccepted)
	case !handshakeMethods[m.Method].lasting:
		ctx, cancel := d.sessionContext(r.Context(), s)
		defer cancel(nil)
		writeJSON(w, http.StatusOK, d.handle(ctx, c, s.peer, nil, m))
	default:
		d.serveStream(w, r, c, s, []*wire.Message{m}, nil)
	}
}

// serveInitialize opens a session.
func (d *handshake) serveInitialize(w http.ResponseWriter, c caller, m *wire.Message) {
	p, result, fail := d.open(m.Params)
	if fail != nil {
		writeJSON(w, http.StatusOK, wire.AppendResponse(nil, m.ID, nil, fail))
		return
	}
	s, err := d.start(p, c)
	if err != nil {
		p.close(err)
		w.Header().Set("Retry-After", "60")
		writeJSON(w, http.StatusServiceUnavailable, wire.AppendResponse(nil, m.ID, nil, wire.NewError(wire.CodeInternalError, err.Error())))
		return
	}
	w.Header().Set(wire.SessionHeader, s.id)
	writeJSON(w, http.StatusOK, wire.AppendResponse(nil, m.ID, result, nil))
}

// serveStranger answers a message without a session. A client of the saga
// proposal needs none, and yet may look around.
func (d *handshake) serveStranger(w http.ResponseWriter, r *http.Request, c caller, m *wire.Message) {
	switch {
	case m.Notification():
		w.WriteHeader(http.StatusAccepted)
	case handshakeMethods[m.Method].serve == nil || handshakeMethods[m.Method].open:
		writeJSON(w, http.StatusOK, d.handle(r.Context(), c, nil, nil, m))
	default:
		writeJSON(w, http.StatusBadRequest, wire.AppendResponse(nil, m.ID, nil, wire.NewError(wire.CodeInvalidRequest, noSessionText)))
	}
}

// serveOther answers GET, which opens a stream, and DELETE, which ends a session.
func (d *handshake) serveOther(w http.ResponseWriter, r *http.Request, c caller) {
	allowed := "POST"
	if r.Header.Get(wire.SessionHeader) != "" {
		allowed = "GET, POST, DELETE"
	}
	if allowed == "POST" || r.Method != http.MethodGet && r.Method != http.MethodDelete {
		w.Header().Set("Allow", allowed)
		d.writeError(w, http.StatusMethodNotAllowed, wire.NewError(wire.CodeInvalidRequest, "only "+allowed+" is allowed"))
		return
	}
	s := d.sessionOf(w, r, c, nil)
	if s == nil {
		return
	}
	defer d.release(s)
	if r.Method == http.MethodDelete {
		d.end(s)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	d.serveGet(w, r, s)
}

// sessionOf returns the session of an HTTP request, to be released, or nil after it has
// refused the request. id is that of the request in it, nil for none.
func (d *handshake) sessionOf(w http.ResponseWriter, r *http.Request, c caller, id jsontext.Value) *session {
	refuseWith := func(status int, text string) {
		writeJSON(w, status, wire.AppendResponse(nil, id, nil, wire.NewError(wire.CodeInvalidRequest, text)))
	}
	name := r.Header.Get(wire.SessionHeader)
	if name == "" {
		refuseWith(http.StatusBadRequest, noSessionText)
		return nil
	}
	s := d.sessions.use(name)
	if s == nil {
		refuseWith(http.StatusNotFound, goneSessionText)
		return nil
	}
	if s.principal != c.principal {
		d.release(s)
		d.log.Info("request refused", "reason", "the session belongs to another principal")
		refuseWith(http.StatusForbidden, "the session belongs to somebody else")
		return nil
	}
	return s
}

// sessionContext returns a context for work that a session's request began: it
// ends with the session, not with the request's connection (MCP 2025-11-25,
// basic/transports: disconnection is no cancellation).
func (d *handshake) sessionContext(request context.Context, s *session) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// cancellable returns a context for a request of the saga proposal. Such a request
// needs no session, and is served whatever session it names; but a client that has
// one cancels by a notification there, and is using it.
func (d *handshake) cancellable(r *http.Request, c caller, m *wire.Message) (context.Context, func()) {
	id := r.Header.Get(wire.SessionHeader)
	if id == "" {
		return r.Context(), func() {}
	}
	s := d.sessions.use(id)
	if s == nil {
		return r.Context(), func() {}
	}
	if s.principal != c.principal {
		d.release(s) // whoever only names it is not using it
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	_, err := s.begin(m, cancel)
	return ctx, func() {
		if err == nil {
			s.finish(m.ID)
		}
		cancel(nil)
		d.release(s)
	}
}

// notified handles a notification of the client.
func (s *session) notified(m *wire.Message) {
	if m.Method == "notifications/cancelled" {
		s.cancelled(m.Params)
	}
}
