package handshake

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Replies by a stream of events: to requests that may take long, and to GET.

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
		d.replyElsewhere(ctx, x, r, s, last)
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
