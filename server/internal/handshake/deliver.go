package handshake

import (
	"context"
	"net/http"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// replyWithStream answers requests that may take long, or send messages before their
// response: as JSON if they turn out to do neither, else as a stream. wrong is nil unless
// the requests came as a batch; it holds the responses to what was no message in it.
func (d *handshake) replyWithStream(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session, requests []*wire.Message, wrong [][]byte) {
	streams := wire.AcceptsEvents(x.Header)
	st := s.open(len(requests), wrong)
	reader := st.attach() // first of all: a call may give it up at once
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
	one := &dialect.Exchange{Message: m, Header: x.Header, Principal: x.Principal, Owner: x.Owner, HTTPMethod: x.HTTPMethod}
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
	reader := st.attach()
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
	if out.Start() != nil || s.revision.polling() && out.Prime(st.eventID(number)) != nil {
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
				st.add(eventNote, wire.AppendNotification(nil, e.Method(), e.Params()))
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
