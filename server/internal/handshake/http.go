package handshake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// goneSession refuses an id that is no session's, or no longer.
func goneSession() *wire.Error {
	return wire.Refuse(http.StatusNotFound, wire.CodeInvalidRequest, goneSessionText)
}

// Texts of refusals.
const (
	noSessionText   = "this needs a session: send initialize, and the " + wire.SessionHeader + " of its response with every request; tools can also be called without one, by tools/callSaga"
	goneSessionText = "there is no such session, or no longer: send initialize again"
)

// Reply implements [dialect.Sessions].
func (d *handshake) Reply(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	m, session := x.Message, x.Header.Get(wire.SessionHeader)
	switch {
	case x.HTTPMethod == http.MethodGet && session != "":
		d.replyToGet(ctx, x, r)
		return
	case x.HTTPMethod == http.MethodDelete && session != "":
		d.replyToDelete(ctx, x, r)
		return
	case x.HTTPMethod != http.MethodPost:
		refuseMethod(r, session)
		return
	case x.Batch != nil:
		d.replyToBatch(ctx, x, r)
		return
	case m.Method == "initialize" && m.ID != nil:
		d.replyToInitialize(ctx, x, r)
		return
	case session == "" && m.Reply == nil:
		d.replyWithoutSession(ctx, x, r)
		return
	}
	method := d.method(m)
	asks := m.Reply == nil && m.ID != nil
	s, rerr := d.sessionOf(ctx, x, needs{
		memory: asks && (method.lasting || method.lingering && d.Tasks == nil), calls: !asks,
	})
	if rerr != nil {
		id := m.ID
		if m.Reply != nil {
			id = nil // it is of our request; the error must not look like a response to one of theirs
		}
		r.Error(id, rerr)
		return
	}
	defer d.release(s, nil)
	switch {
	case m.Reply != nil:
		if rerr := d.answered(ctx, x, s, m); rerr != nil {
			r.Error(questionOf(m.Reply), rerr)
			return
		}
		r.Empty(http.StatusAccepted)
	case m.ID == nil:
		if rerr := d.notified(ctx, x, s, m); rerr != nil {
			r.Error(nil, rerr)
			return
		}
		r.Empty(http.StatusAccepted)
	case !method.lasting:
		if method.lingering && d.Tasks == nil {
			s.linger()
		}
		ctx, cancel := sessionContext(ctx, s)
		defer cancel(nil)
		r.JSON(http.StatusOK, d.respond(ctx, x, s.peer, nil))
	default:
		d.replyWithStream(ctx, x, r, s, []*wire.Message{m}, nil)
	}
}

// refuseMethod refuses what is neither POST nor, in a session, GET, which opens a stream, or
// DELETE, which ends the session.
func refuseMethod(r wire.Reply, session string) {
	allowed := "POST"
	if session != "" {
		allowed = "GET, POST, DELETE"
	}
	r.Header().Set("Allow", allowed)
	r.Error(nil, wire.Refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "only "+allowed+" is allowed"))
}

// answered takes a response of the client.
func (d *handshake) answered(ctx context.Context, x *dialect.Exchange, s *session, m *wire.Message) *wire.Error {
	id, answer := dialect.ReadAnswer(m.Reply)
	err := s.answered(id, answer, len(m.Reply))
	if errors.Is(err, errNobodyWaits) && d.Tasks != nil {
		err = d.answerTask(ctx, x, s, id, answer)
	}
	unasked := errors.Is(err, errNobodyWaits) || errors.Is(err, errNoQuestion)
	if unasked && d.Guest != nil {
		if taken, rerr := d.GuestAnswered(ctx, d.visitor(x, s, m)); taken {
			return rerr
		}
	}
	switch {
	case err == nil:
		return nil
	case unasked:
		d.Log.InfoContext(ctx, "answer refused", "reason", "nothing waits for it here: the call has ended, or runs in another replica, which the requests of its session do not always reach")
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, err.Error())
	case errors.Is(err, errHeld):
		return wire.Refuse(http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, err.Error())
	}
	return d.Translate(ctx, "answer", err)
}

// respond answers a request and returns the response. post is the way of one that came in a
// session, or nil.
func (d *handshake) respond(ctx context.Context, x *dialect.Exchange, p *peer, post *way) []byte {
	result, rerr := d.Dispatch(ctx, x, func(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
		return d.serve(ctx, x, p, post)
	})
	return wire.AppendResponse(nil, x.Message.ID, result, rerr)
}

func (d *handshake) replyToInitialize(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	result, rerr := d.Dispatch(ctx, x, func(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
		p, result, rerr := d.agree(x)
		if rerr != nil {
			return nil, rerr
		}
		if d.sessions.isClosed() {
			rerr := wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, dialect.ErrStopping.Error())
			rerr.RetryAfter = time.Minute
			return nil, rerr
		}
		id, err := d.newID(p, x.Principal)
		if err != nil {
			return nil, d.Translate(ctx, x.Message.Method, err)
		}
		r.Header().Set(wire.SessionHeader, id)
		return result, nil
	})
	r.Response(wire.AppendResponse(nil, x.Message.ID, result, rerr), rerr)
}

// replyWithoutSession answers a message without a session. A client of the saga
// proposal needs none, and yet may look around.
func (d *handshake) replyWithoutSession(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	m := x.Message
	method := d.method(m)
	switch {
	case m.ID == nil:
		if rerr := d.GuestCancelled(ctx, x); rerr != nil {
			r.Error(nil, rerr)
			return
		}
		r.Empty(http.StatusAccepted)
	case method.serve == nil || method.open:
		r.JSON(http.StatusOK, d.respond(ctx, x, nil, nil))
	default:
		r.Error(m.ID, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, noSessionText))
	}
}

// replyToDelete ends a session.
func (d *handshake) replyToDelete(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	s, rerr := d.sessionOf(ctx, x, needs{calls: true})
	if rerr == nil {
		rerr = d.end(ctx, s, x.Principal)
		d.release(s, nil)
	}
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	r.Empty(http.StatusNoContent)
}

// notified handles a notification of the client, which may cancel a request.
func (d *handshake) notified(ctx context.Context, x *dialect.Exchange, s *session, m *wire.Message) *wire.Error {
	id := dialect.Cancelled(m)
	if id == nil {
		return nil
	}
	s.mu.Lock()
	c := s.calls[string(id)]
	s.mu.Unlock()
	switch {
	case c != nil:
		c.cancel(dialect.ErrCancelled)
	case d.Tasks != nil:
		known, err := d.cancelElsewhere(ctx, s.agreed, x.Principal, id)
		if err != nil {
			return d.Translate(ctx, m.Method, err)
		}
		if !known { // where it has begun, if anywhere, only memory knows of it yet
			d.Hub.Cancel(dialect.GivenUp{Session: s.agreed.id, Request: requestText(id)})
		}
	}
	return d.GuestCancelled(ctx, d.visitor(x, s, m))
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
	s, rerr := d.sessionOf(ctx, x, needs{memory: true})
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	defer d.release(s, nil)
	rerr = x.Batch.Error
	if !s.revision.Batches() {
		rerr = noBatch
	}
	if rerr != nil {
		rerr.Status = http.StatusBadRequest
		r.Error(nil, rerr)
		return
	}
	var requests []*wire.Message
	wrong := make([][]byte, 0, len(x.Batch.Messages)) // responses to what was no message
	for i := range x.Batch.Messages {
		m := &x.Batch.Messages[i].Message
		switch rerr := x.Batch.Messages[i].Error; {
		case rerr != nil:
			wrong = append(wrong, wire.AppendResponse(nil, m.ID, nil, rerr))
		case m.Reply != nil:
			if rerr := d.answered(ctx, x, s, m); rerr != nil {
				wrong = append(wrong, wire.AppendResponse(nil, nil, nil, rerr))
			}
		case m.ID == nil:
			if rerr := d.notified(ctx, x, s, m); rerr != nil {
				wrong = append(wrong, wire.AppendResponse(nil, nil, nil, rerr))
			}
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
	st := s.open(len(requests), wrong, d.Tasks != nil && len(requests) > 0 && d.method(requests[0]).numbered)
	reader := &streamReader{gone: make(chan struct{})}
	defer st.carriedBy(reader, 0)() // first of all: a call may give it up at once
	for _, m := range requests {
		task, rerr := "", (*wire.Error)(nil)
		if d.Tasks != nil {
			task, rerr = d.takeOver(ctx, x, s, m)
		}
		if rerr == nil {
			rerr = d.begin(ctx, x, s, st, m, streams, task, nil)
		}
		if rerr != nil {
			st.add(eventResponse, wire.AppendResponse(nil, m.ID, nil, rerr))
		}
	}
	responses, plain := st.awaitStream(ctx, reader, streams)
	if !plain {
		st.pump(ctx, r, reader)
		return
	}
	if ctx.Err() == nil {
		body := bytes.Join(responses, []byte{','})
		if wrong != nil {
			body = append(append([]byte{'['}, body...), ']')
		}
		r.JSON(http.StatusOK, body)
	}
	s.forget(st) // it cannot be resumed
}

// begin has respond, which is d.respond if it is nil, serve a request whose response goes to a
// stream. It outlives the HTTP request if the connection breaks. task is the task that the request
// resumes, or empty. If it cannot begin, nothing comes on the stream.
func (d *handshake) begin(ctx context.Context, x *dialect.Exchange, s *session, st *stream, m *wire.Message, streams bool, task string, respond responder) *wire.Error {
	leave, rerr := d.open.Enter(s.owner)
	if rerr != nil {
		return rerr
	}
	ctx, cancel := sessionContext(ctx, s)
	call, err := s.begin(m, task, cancel)
	if err != nil {
		leave()
		cancel(nil)
		return wire.NewError(wire.CodeInvalidRequest, err.Error())
	}
	ended := d.sessions.running.Begin()
	one := &dialect.Exchange{Message: m, Header: x.Header, Principal: x.Principal, Owner: x.Owner, Dialect: d, HTTPMethod: x.HTTPMethod}
	post := &way{s, st, call}
	if streams {
		one.Way = post
	}
	go func() {
		defer ended()
		defer cancel(nil)
		var response []byte
		if respond == nil {
			response = d.respond(ctx, one, s.peer, post)
		} else {
			response = respond(ctx, one, s.peer, post)
		}
		leave()
		d.release(s, m.ID)
		s.mu.Lock()
		mark, left := call.mark, call.left
		s.mu.Unlock()
		if left || context.Cause(ctx) == dialect.ErrCancelled {
			response = nil
		}
		st.addMarked(mark, eventResponse, response)
		if left && st.single {
			s.forget(st) // the rest of it is not here
		}
	}()
	return nil
}

// responder answers a request that came in a session, and returns the response; nil is none.
type responder func(ctx context.Context, x *dialect.Exchange, p *peer, post *way) []byte

// replyToGet answers GET: with the stream that belongs to no request, or with the
// rest of the one that the client lost.
func (d *handshake) replyToGet(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	s, rerr := d.sessionOf(ctx, x, needs{memory: true, calls: x.Header.Get("Last-Event-ID") != ""})
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	defer d.release(s, nil)
	if !wire.AcceptsEvents(x.Header) {
		r.Error(nil, wire.Refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "the client must accept text/event-stream"))
		return
	}
	if s.answering.Err() != nil { // some clients give up their session for a refusal
		out := r.Events(patience)
		_ = out.Start(x.Header.Get("Last-Event-ID"))
		_ = out.Retry(stopRetry)
		out.End()
		return
	}
	st, last, here := s.lost(x.Header.Get("Last-Event-ID"))
	if st == nil {
		d.replyFromLog(ctx, x, r, s, last)
		return
	}
	reader := &streamReader{gone: make(chan struct{}), number: last.event, opening: last.mark}
	defer st.carriedBy(reader, 0)()
	if st == s.general {
		d.listens(ctx, s, x, here)
		defer d.tells(ctx, s, x)()
		reader.opening = s.position(s.changes)
	}
	st.pump(ctx, r, reader)
}

// lost returns the stream that a client reads on, by the id of the last event that it has got, and
// what that says; nil if it is not here. Without an id it is the stream that belongs to no request.
// here: what the client has not read of it is.
func (s *session) lost(id string) (st *stream, last eventID, here bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" {
		return s.general, eventID{event: s.general.last}, false
	}
	last, ok := parseEventID(id)
	if !ok {
		return nil, eventID{}, false
	}
	st = s.streams[last.stream]
	if st == nil && strings.HasPrefix(last.stream, generalStream) {
		// Of another replica, or from before the session was in memory: what was not
		// read of it is lost without a ledger, and what comes now is not.
		return s.general, eventID{event: s.general.last}, false
	}
	return st, last, st != nil
}
