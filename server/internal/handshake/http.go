package handshake

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

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
		return
	case x.Batch != nil || x.BatchError != nil:
		d.replyToBatch(ctx, x, r)
		return
	case m.Method == "initialize" && m.ID != nil:
		d.replyToInitialize(ctx, x, r)
		return
	case x.Header.Get(wire.SessionHeader) == "" && m.Reply == nil:
		d.replyWithoutSession(ctx, x, r)
		return
	}
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
	result, rerr := d.Dispatch(ctx, x, func(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
		return d.serve(ctx, x, p)
	})
	return wire.AppendResponse(nil, x.Message.ID, result, rerr)
}

// replyToInitialize opens a session.
func (d *handshake) replyToInitialize(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	result, rerr := d.Dispatch(ctx, x, func(_ context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
		p, result, rerr := d.open(d.Draining, x.Message.Params)
		if rerr != nil {
			return nil, rerr
		}
		s, rerr := d.start(p, x)
		if rerr != nil {
			return nil, rerr
		}
		r.Header().Set(wire.SessionHeader, s.id)
		return result, nil
	})
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
	if version := x.Header.Get(wire.VersionHeader); version != "" && !slices.Contains(versions, version) {
		return ctx, func() {} // revisions of others have no sessions
	}
	s := d.sessions.use(x.Header.Get(wire.SessionHeader))
	if s == nil {
		return ctx, func() {}
	}
	if s.principal != x.Principal {
		d.release(s) // whoever only names it is not using it
		return ctx, func() {}
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

// Batchable implements [dialect.Sessions]. The handshake is not part of batches (MCP
// 2025-03-26, basic/lifecycle).
func (*handshake) Batchable(m *wire.Message) bool { return m.Method != "initialize" }

// replyToBatch answers a batch, which only sessions of 2025-03-26 may send.
func (d *handshake) replyToBatch(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	noBatch := wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, wire.BatchText)
	if x.Header.Get(wire.SessionHeader) == "" {
		r.Error(nil, noBatch)
		return
	}
	if rerr := cmp.Or(dialect.ContradictoryBatch(x.Header), d.KeyOfBatch(x.Header)); rerr != nil {
		r.Error(nil, rerr)
		return
	}
	s, rerr := d.sessionOf(x)
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	defer d.release(s)
	rerr = x.BatchError
	if !s.revision.batches() {
		rerr = noBatch
	}
	if rerr != nil {
		rerr.Status = http.StatusBadRequest
		r.Error(nil, rerr)
		return
	}
	var requests []*wire.Message
	wrong := make([][]byte, 0, len(x.Batch)) // responses to what was no message
	for i := range x.Batch {
		m := &x.Batch[i].Message
		switch rerr := x.Batch[i].Error; {
		case rerr != nil:
			wrong = append(wrong, wire.AppendResponse(nil, m.ID, nil, rerr))
		case m.Reply != nil:
			if err := s.answered(m.Reply); err != nil {
				wrong = append(wrong, wire.AppendResponse(nil, nil, nil, wire.NewError(wire.CodeInvalidRequest, err.Error())))
			}
		case m.Notification():
			s.notified(m)
		default:
			requests = append(requests, m)
		}
	}
	if len(requests)+len(wrong) == 0 {
		r.Empty(http.StatusAccepted)
		return
	}
	d.replyWithStream(ctx, x, r, s, requests, wrong)
}

// replyWithStream answers requests that may take long, or send messages before their
// response: as JSON if they turn out to do neither, else as a stream. wrong is nil unless
// the requests came as a batch; it holds the responses to what was no message in it.
func (d *handshake) replyWithStream(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session, requests []*wire.Message, wrong [][]byte) {
	streams := wire.AcceptsEvents(x.Header)
	st := s.open(len(requests), wrong)
	reader := &streamReader{gone: make(chan struct{})}
	st.carriedBy(reader, 0) // first of all: a call may give it up at once
	defer st.release(reader)
	for _, m := range requests {
		d.begin(ctx, x, s, st, m, streams)
	}
	if !d.awaitStream(ctx, s, st, reader, streams) {
		if ctx.Err() == nil {
			r.JSON(http.StatusOK, st.responses(wrong != nil))
		}
		s.forget(st)
		return
	}
	d.pump(ctx, r, s, st, reader, 0, nil)
}

// begin serves a request whose response goes to a stream. It outlives the HTTP request if
// the connection breaks.
func (d *handshake) begin(ctx context.Context, x *dialect.Exchange, s *session, st *stream, m *wire.Message, streams bool) {
	ctx, cancel := sessionContext(ctx, s)
	call, err := s.begin(m, cancel)
	if err != nil {
		cancel(nil)
		s.respond(st, wire.AppendResponse(nil, m.ID, nil, wire.NewError(wire.CodeInvalidRequest, err.Error())))
		return
	}
	s.hold()
	d.sessions.running.Begin()
	one := &dialect.Exchange{Message: m, Header: x.Header, Principal: x.Principal, Owner: x.Owner, Dialect: d, HTTPMethod: x.HTTPMethod}
	if streams {
		one.Way = &way{s, st, call}
	}
	go func() {
		defer d.sessions.running.End()
		defer d.release(s)
		defer cancel(nil)
		response := d.respond(ctx, one, s.peer)
		s.finish(m.ID)
		if context.Cause(ctx) == dialect.ErrCancelled {
			response = nil
		}
		s.respond(st, response)
	}()
}

// awaitStream waits until it shows how to answer. It reports false if all there is
// to say is responses: then they can be plain JSON.
func (d *handshake) awaitStream(ctx context.Context, s *session, st *stream, reader *streamReader, streams bool) bool {
	var late <-chan time.Time
	if streams {
		t := time.NewTimer(streamDelay)
		defer t.Stop()
		late = t.C
	}
	for {
		events, ended, changed := st.after(0)
		for _, e := range events {
			if e.kind != eventResponse {
				return true
			}
		}
		if ended {
			return len(events) == 0 // all were cancelled: a stream without a response says so
		}
		select {
		case <-changed:
		case <-late:
			return true
		case <-reader.gone:
			return true
		case <-ctx.Done():
			return streams
		case <-s.ctx.Done():
			if streams {
				return true
			}
			<-changed // the calls end, and with them the stream
		}
	}
}

// responses are all that there is to say, without a stream.
func (st *stream) responses(batch bool) []byte {
	events, _, _ := st.after(0)
	var body []byte
	for i, e := range events {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, e.data...)
	}
	if batch {
		body = append(append([]byte{'['}, body...), ']')
	}
	return body
}

// replyToGet answers GET: with the stream that belongs to no request, or with the
// rest of the one that the client lost.
func (d *handshake) replyToGet(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session) {
	if !wire.AcceptsEvents(x.Header) {
		r.Error(nil, wire.Refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "the client must accept text/event-stream"))
		return
	}
	if s.answering.Err() != nil {
		r.Error(nil, wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, "the server stops"))
		return
	}
	st, number := s.general, s.general.position()
	if id := x.Header.Get("Last-Event-ID"); id != "" {
		name, last, ok := parseEventID(id)
		if st = s.find(name); !ok || st == nil {
			r.Error(nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "there is nothing to resume after this Last-Event-ID, or no longer"))
			return
		}
		number = last
	}
	var changes *dialect.Subscription
	if st == s.general {
		changes = s.changes
	}
	reader := &streamReader{gone: make(chan struct{})}
	st.carriedBy(reader, 0)
	defer st.release(reader)
	d.pump(ctx, r, s, st, reader, number, changes)
}

// pump writes a stream's events from after a number on, until the stream has ended
// or the connection is to. Changes, if there are any, become events of the stream.
func (d *handshake) pump(ctx context.Context, r wire.Reply, s *session, st *stream, reader *streamReader, number uint64, changes *dialect.Subscription) {
	var changed <-chan struct{}
	if changes != nil {
		changed = changes.Ready
	}
	out := r.Events(patience)
	begin := out.Start
	if s.revision >= revision2025November { // the client can resume from the first event on (SEP-1699)
		begin = func() error { return out.Prime(st.eventID(number)) }
	}
	if begin() != nil {
		return
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case <-reader.gone:
			if reader.retry == 0 || out.Retry(reader.retry) == nil {
				out.End()
			}
			return
		default:
		}
		events, ended, more := st.after(number)
		for _, e := range events {
			if out.Event(st.eventID(e.number), e.data) != nil {
				return
			}
			number = e.number
		}
		if ended {
			out.End()
			return
		}
		select {
		case <-more:
		case <-reader.gone:
		case <-changed:
			if e, ok := changes.Next(); ok {
				st.add(eventNote, wire.AppendCall(nil, 0, e.Method(), e.Params()))
			}
		case <-alive.C:
			if out.Alive() != nil {
				return
			}
		case <-s.ctx.Done():
			out.End()
			return
		case <-ctx.Done():
			return
		}
	}
}

const (
	// streamDelay is how long a response may take before the stream opens, so that
	// short answers are plain JSON.
	streamDelay = 50 * time.Millisecond
	// aliveEvery is how often an idle stream shows that it lives; a connection
	// that is dead is noticed by it.
	aliveEvery = 15 * time.Second
	// patience is how long a client may take to accept what is written.
	patience = 30 * time.Second
)
