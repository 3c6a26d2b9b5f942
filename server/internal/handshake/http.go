package handshake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
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
	case x.HTTPMethod == http.MethodDelete && session != "":
		d.replyToDelete(ctx, x, r)
	case x.HTTPMethod != http.MethodPost:
		allowed := "POST"
		if session != "" {
			allowed = "GET, POST, DELETE"
		}
		r.Header().Set("Allow", allowed)
		r.Error(nil, wire.Refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "only "+allowed+" is allowed"))
	case x.Batch != nil:
		d.replyToBatch(ctx, x, r)
	case m.Method == "initialize" && m.ID != nil:
		d.replyToInitialize(ctx, x, r)
	case session == "" && m.Reply == nil:
		d.replyWithoutSession(ctx, x, r)
	default:
		d.replyInSession(ctx, x, r)
	}
}

// replyInSession answers a message of a session.
func (d *handshake) replyInSession(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	m := x.Message
	method := d.method(m)
	asks := m.Reply == nil && m.ID != nil
	lingers := method.lingering && d.Tasks == nil // else the ledger has what it changes
	s, rerr := d.sessionOf(ctx, x, needs{memory: asks && (method.lasting || lingers), calls: !asks})
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
		done(r, http.StatusAccepted, m.Reply, d.answered(ctx, x, s, m))
	case m.ID == nil:
		done(r, http.StatusAccepted, nil, d.notified(ctx, x, s, m))
	case !method.lasting:
		ctx, cancel := sessionContext(ctx, s)
		defer cancel(nil)
		r.Response(d.respond(ctx, x, s.peer, nil))
	default:
		if rerr := d.Refusal(ctx, m); rerr.Auth() { // before a stream begins, which has another status
			r.Error(m.ID, rerr)
			return
		}
		d.replyWithStream(ctx, x, r, s, []*wire.Message{m}, nil)
	}
}

// done answers what has no response, such as the client's own: with a status, or an error. That has a status as well: with 200 what
// was sent would count as taken (MCP 2025-11-25, basic/transports, sending messages).
func done(r wire.Reply, status int, response jsontext.Value, rerr *wire.Error) {
	if rerr == nil {
		r.Empty(status)
		return
	}
	failed := *rerr
	failed.Status = cmp.Or(rerr.Status, http.StatusInternalServerError)
	r.Error(questionOf(response), &failed)
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
		text := err.Error()
		if d.Guest != nil && answer.Error == nil { // an id does not say whether it is that of an operation's question
			text += "; or the question is an operation's, and the answer lacks result._operation.token"
		}
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, text)
	case errors.Is(err, errHeld):
		return wire.Refuse(http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, err.Error())
	}
	return d.Translate(ctx, "answer", err)
}

// respond returns the response to a request, and the error for want of a permission, which HTTP has a status for.
func (d *handshake) respond(ctx context.Context, x *dialect.Exchange, p *peer, post *way) (response []byte, refused *wire.Error) {
	result, rerr := d.Dispatch(ctx, x, func(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
		return d.serve(ctx, x, p, post)
	})
	if rerr.Auth() {
		refused = rerr
	}
	return wire.AppendResponse(nil, x.Message.ID, result, rerr), refused
}

func (d *handshake) replyToInitialize(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	result, rerr := d.Dispatch(ctx, x, func(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
		p, result, rerr := d.agree(x)
		if rerr != nil {
			return nil, rerr
		}
		if d.sessions.isClosed() {
			return nil, inAMinute(dialect.ErrStopping)
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

// replyWithoutSession answers a message without a session, as of a client of the saga proposal that looks around.
func (d *handshake) replyWithoutSession(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	m := x.Message
	method := d.method(m)
	switch {
	case m.ID == nil:
		done(r, http.StatusAccepted, nil, d.GuestCancelled(ctx, x))
	case method.serve == nil || method.open:
		r.Response(d.respond(ctx, x, nil, nil))
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
	done(r, http.StatusNoContent, nil, rerr)
}

// notified handles a notification of the client, which may cancel a request.
func (d *handshake) notified(ctx context.Context, x *dialect.Exchange, s *session, m *wire.Message) *wire.Error {
	id := dialect.Cancelled(m)
	if id == nil {
		return nil
	}
	here := s.stop(func(c *sessionCall) bool { return string(c.message.ID) == string(id) })
	if !here && d.Tasks != nil {
		settled, err := d.cancelInLedger(ctx, s.agreed, x.Principal, id)
		if err != nil {
			return d.Translate(ctx, m.Method, err)
		}
		if !settled { // where it has begun, if anywhere, only memory knows of it yet
			d.Hub.Cancel(dialect.GivenUp{Session: s.agreed.id, Request: requestText(id)})
		}
	}
	return d.GuestCancelled(ctx, d.visitor(x, s, m))
}

// Batchable implements [dialect.Sessions] (MCP 2025-03-26, basic/lifecycle).
func (*handshake) Batchable(m *wire.Message) bool { return m.Method != "initialize" }

// replyToBatch answers a batch, which only sessions of 2025-03-26 may send.
func (d *handshake) replyToBatch(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	s, rerr := d.sessionOfBatch(ctx, x)
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	defer d.release(s, nil)
	for i := range x.Batch.Messages {
		if rerr := d.Refusal(ctx, &x.Batch.Messages[i].Message); rerr.Auth() { // before anything of it is done
			r.Error(nil, rerr)
			return
		}
	}
	var requests []*wire.Message
	wrong := make([][]byte, 0, len(x.Batch.Messages)) // responses to what was no message
	for i := range x.Batch.Messages {
		m := &x.Batch.Messages[i].Message
		id, rerr := jsontext.Value(nil), x.Batch.Messages[i].Error
		switch {
		case rerr != nil:
			id = m.ID
		case m.Reply != nil:
			rerr = d.answered(ctx, x, s, m)
		case m.ID == nil:
			rerr = d.notified(ctx, x, s, m)
		default:
			requests = append(requests, m)
		}
		if rerr != nil {
			wrong = append(wrong, wire.AppendResponse(nil, id, nil, rerr))
		}
	}
	if len(requests)+len(wrong) == 0 {
		r.Empty(http.StatusAccepted)
		return
	}
	d.replyWithStream(ctx, x, r, s, requests, wrong)
}

// sessionOfBatch returns the session of a batch, which the caller releases, if it may send one.
func (d *handshake) sessionOfBatch(ctx context.Context, x *dialect.Exchange) (*session, *wire.Error) {
	noBatch := wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, wire.BatchText)
	if x.Header.Get(wire.SessionHeader) == "" {
		return nil, noBatch
	}
	if rerr := d.HeadersOfBatch(x.Header); rerr != nil {
		return nil, rerr
	}
	asks := slices.ContainsFunc(x.Batch.Messages, func(b dialect.Batched) bool { return b.Message.Reply == nil && b.Message.ID != nil })
	s, rerr := d.sessionOf(ctx, x, needs{memory: true, calls: !asks})
	if rerr != nil {
		return nil, rerr
	}
	if rerr = x.Batch.Error; !s.revision.Batches() {
		rerr = noBatch
	}
	if rerr != nil {
		d.release(s, nil)
		rerr.Status = http.StatusBadRequest
		return nil, rerr
	}
	return s, nil
}

// replyWithStream answers requests as JSON if they turn out to be short, else by a stream. wrong, if the requests came as a
// batch, has the responses to what was no message in it; else it is nil.
func (d *handshake) replyWithStream(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session, requests []*wire.Message, wrong [][]byte) {
	streams := r.Streams(x.Header)
	st := s.open(len(requests), wrong, d.Tasks != nil)
	c := &carrier{gone: make(chan struct{})}
	defer s.carry(&st.carrier, c, 0)() // first of all: a call may give it up at once
	for _, m := range requests {
		as := repeated
		if d.Tasks == nil {
			as = another
		} else if m.Method == resumeMethod {
			as = more
		}
		rerr := d.begin(ctx, x, s, st, m, streams, as, func(ctx context.Context, x *dialect.Exchange, post *way) ([]byte, *wire.Error) {
			return d.respond(ctx, x, s.peer, post)
		})
		if rerr != nil {
			st.add(eventResponse, wire.AppendResponse(nil, m.ID, nil, rerr))
		}
	}
	st.reply(ctx, r, c, streams, wrong != nil)
}

// begin has a request served whose response, unless it is nil, goes to a stream. It outlives its connection. If it cannot begin,
// nothing comes on the stream.
func (d *handshake) begin(ctx context.Context, x *dialect.Exchange, s *session, st *stream, m *wire.Message, streams bool, as likeness, respond func(context.Context, *dialect.Exchange, *way) ([]byte, *wire.Error)) *wire.Error {
	leave, rerr := d.open.Enter(s.owner)
	if rerr != nil {
		return rerr
	}
	ctx, cancel := sessionContext(ctx, s)
	call, err := s.begin(m, cancel, as)
	if err != nil {
		leave()
		cancel(nil)
		return wire.NewError(wire.CodeInvalidRequest, err.Error())
	}
	ended := d.sessions.running.Begin()
	one, post := x.For(m), &way{s, st, call}
	if x.Batch == nil { // else it is that of all messages
		one.Large = x.Large
	}
	if one.Closing = d.Draining; streams {
		one.Way = post
	}
	go func() {
		defer ended()
		defer cancel(nil)
		response, refused := respond(ctx, one, post)
		st.refuse(refused)
		leave()
		d.release(s, call)
		left := post.isLeft()
		if left || context.Cause(ctx) == dialect.ErrCancelled {
			response = nil
		}
		st.add(eventResponse, response)
		if left && st.single {
			s.forget(st) // the rest of it is not here
		}
	}()
	return nil
}

// replyToGet answers GET, by the stream that belongs to no request or the rest of the one that the client lost.
func (d *handshake) replyToGet(ctx context.Context, x *dialect.Exchange, r wire.Reply) {
	id := x.Header.Get("Last-Event-ID")
	s, rerr := d.sessionOf(ctx, x, needs{memory: true, calls: id != ""})
	if rerr != nil {
		r.Error(nil, rerr)
		return
	}
	defer d.release(s, nil)
	switch {
	case !r.Streams(x.Header):
		r.Error(nil, wire.Refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "the client must accept text/event-stream, and the server's middleware pass it on"))
		return
	case d.Draining.Err() != nil: // some clients give up their session for a refusal
		out := r.Events(acceptTime)
		if s.revision < revision.November2025 { // as in stream.start
			_ = out.Alive()
		} else {
			_ = out.Start(id)
		}
		_ = out.Retry(stopRetry)
		return
	}
	last, ok := parseEventID(id)
	if id == "" || ok && strings.HasPrefix(last.stream, generalStream) {
		d.listen(ctx, x, r, s, id)
		return
	}
	s.mu.Lock()
	st := s.streams[last.stream]
	// With a number, and without a connection, its reader is about to leave (reader.tick): the log of the task has the rest.
	inMemory := ok && st != nil && (last.number == 0 || st.carrier != nil)
	s.mu.Unlock()
	c := &carrier{gone: make(chan struct{}), after: id}
	if !inMemory {
		d.replyFromLog(ctx, x, r, s, last, c)
		return
	}
	c.number = last.event // it has been sent
	defer s.carry(&st.carrier, c, 0)()
	st.pump(ctx, r, c)
}
