package server

import (
	"context"
	"net/http"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// serveStream answers requests that may take long, or send messages before their
// response: as JSON if they turn out to do neither, else as a stream.
func (d *handshake) serveStream(w http.ResponseWriter, r *http.Request, c caller, s *session, requests []*wire.Message, batch *batched) {
	streams := wire.AcceptsEvents(r.Header)
	st := s.open(requests, batch)
	reader := st.attach() // first of all: a call may give it up at once
	defer st.release(reader)
	// The calls outlive the request if its connection breaks.
	for _, m := range requests {
		ctx, cancel := d.sessionContext(r.Context(), s)
		call, err := s.begin(m, cancel)
		if err != nil {
			cancel(nil)
			s.respond(st, wire.AppendResponse(nil, m.ID, nil, wire.NewError(wire.CodeInvalidRequest, err.Error())))
			continue
		}
		s.hold()
		d.sessions.enter()
		var x exchange
		if streams {
			x = &postExchange{s, st, call}
		}
		go func() {
			defer d.sessions.leave()
			defer d.release(s)
			defer cancel(nil)
			response := d.handle(ctx, c, s.peer, x, m)
			s.finish(m.ID)
			if context.Cause(ctx) == errCancelled {
				response = nil
			}
			s.respond(st, response)
		}()
	}
	if !d.awaitStream(r, s, st, reader, streams) {
		if r.Context().Err() == nil {
			writeResponses(w, st, batch != nil)
		}
		s.forget(st)
		return
	}
	d.pump(w, r, s, st, reader, 0, nil)
}

// awaitStream waits until it shows how to answer. It reports false if all there is
// to say is responses: then they can be plain JSON.
func (d *handshake) awaitStream(r *http.Request, s *session, st *stream, reader *streamReader, streams bool) bool {
	var late <-chan time.Time
	if streams {
		t := time.NewTimer(sseDelay)
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
		case <-r.Context().Done():
			if !streams {
				return false
			}
			return true
		case <-s.ctx.Done():
			if streams {
				return true
			}
			<-changed // the calls end, and with them the stream
		}
	}
}

func writeResponses(w http.ResponseWriter, st *stream, batch bool) {
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
	writeJSON(w, http.StatusOK, body)
}

// serveGet answers GET: with the stream that belongs to no request, or with the
// rest of the one that the client lost.
func (d *handshake) serveGet(w http.ResponseWriter, r *http.Request, s *session) {
	if !wire.AcceptsEvents(r.Header) {
		d.writeError(w, http.StatusNotAcceptable, wire.NewError(wire.CodeInvalidRequest, "the client must accept text/event-stream"))
		return
	}
	if s.answering.Err() != nil {
		d.writeError(w, http.StatusServiceUnavailable, wire.NewError(wire.CodeInternalError, "the server stops"))
		return
	}
	st, number := s.general, s.general.position()
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		name, last, ok := parseEventID(id)
		if st = s.find(name); !ok || st == nil {
			d.writeError(w, http.StatusBadRequest, wire.NewError(wire.CodeInvalidRequest, "there is nothing to resume after this Last-Event-ID, or no longer"))
			return
		}
		number = last
	}
	var changes *subscription
	if st == s.general {
		changes = s.changes
	}
	reader := st.attach()
	defer st.release(reader)
	d.pump(w, r, s, st, reader, number, changes)
}

// pump writes a stream's events from after a number on, until the stream has ended
// or the connection is to. Changes, if there are any, become events of the stream.
func (d *handshake) pump(w http.ResponseWriter, r *http.Request, s *session, st *stream, reader *streamReader, number uint64, changes *subscription) {
	var changed <-chan struct{}
	if changes != nil {
		changed = changes.ready
	}
	out := wire.NewEventStream(w, ssePatience)
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // an error means that there is no such limit
	if out.Start() != nil || s.revision.polling() && out.Prime(st.eventID(number)) != nil {
		return
	}
	alive := time.NewTicker(sseAlive)
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
			if e, ok := changes.next(); ok {
				st.add(eventNote, e.notification())
			}
		case <-alive.C:
			if out.Alive() != nil {
				return
			}
		case <-s.ctx.Done():
			out.End()
			return
		case <-r.Context().Done():
			return
		}
	}
}

const (
	// sseDelay is how long a response may take before the stream opens, so that
	// short answers are plain JSON.
	sseDelay = 50 * time.Millisecond
	// sseAlive is how often an idle stream shows that it lives; a connection
	// that is dead is noticed by it.
	sseAlive = 15 * time.Second
	// ssePatience is how long a client may take to accept what is written.
	ssePatience = 30 * time.Second
)
