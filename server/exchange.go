package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/lazyctx"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// keepAlive is how often an idle event stream shows that it is alive.
const keepAlive = 15 * time.Second

// httpExchange is a request that was POSTed, and the way back to its client. The response
// is a JSON object unless something is to be said before; then it becomes a stream of
// events that ends with the response (MCP 2026-07-28, basic/transports/streamable-http).
// Until then nothing is written, as some errors must have a status of their own.
type httpExchange struct {
	dialect.Exchange
	server    *Server
	request   *http.Request
	principal Principal
	message   wire.Message
	reply     wire.Reply
	ctx       lazyctx.Context // ends when the client has gone

	mu     sync.Mutex
	events *wire.EventStream // nil until something is to be said
	alive  *time.Timer       // shows now and then that an open stream is; nil unless it is kept open
	broken bool
	over   bool
}

// Account implements [dialect.Owner]: the principal's account, or that of an anonymous caller's
// key, so that one caller cannot take what is there for all. Those without a key are not distinguished
// and share what is there.
func (x *httpExchange) Account() string {
	if x.principal != (Principal{}) {
		return "principal " + x.principal.binding()
	}
	if key := x.server.opts.CallerKey(x.request); key != "" {
		return "key " + key
	}
	return ""
}

func (x *httpExchange) caller() (p Principal, remote string) {
	return x.principal, x.request.RemoteAddr
}

func (x *httpExchange) answer() {
	s := x.server
	x.Way = x
	x.ctx.Init(x.request.Context(), time.Time{})
	defer func() { // whatever has ended the exchange, nothing is written any more
		x.mu.Lock()
		defer x.mu.Unlock()
		x.over = true
		if x.alive != nil {
			x.alive.Stop()
		}
		x.ctx.Cancel()
	}()
	ctx := context.Context(&x.ctx)
	if len(x.Header[wire.SessionHeader]) > 0 { // as most have none
		for _, sessions := range s.sessions {
			joined, leave := sessions.Join(ctx, &x.Exchange)
			defer leave()
			ctx = joined
		}
	}
	scratch, room := s.buffers.Get(), s.buffers.Get()
	x.Scratch = *scratch
	result, rerr := s.host.Dispatch(ctx, &x.Exchange, nil)
	response := wire.AppendResponse(*room, x.message.ID, result, rerr)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	done := true // whether the response is no longer used
	switch {
	case x.ctx.Err() != nil: // nothing is sent to a client that has cancelled by going away
	case x.events != nil && x.events.Started():
		x.send(func() error { return x.events.Event("", response) })
	case rerr == nil:
		done = x.reply.JSON(http.StatusOK, response)
	default:
		done = x.reply.Response(response, rerr)
	}
	if done {
		s.buffers.Put(room, response)
		s.buffers.Put(scratch, *scratch)
	}
}

// Notify implements [dialect.Way]. A client that does not take it is treated as gone.
func (x *httpExchange) Notify(method string, params json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.events == nil && !x.open() {
		return
	}
	x.send(func() error { return x.events.Event("", wire.AppendCall(nil, 0, method, params)) })
}

// open begins the stream, if the client takes one.
func (x *httpExchange) open() bool {
	if wire.AcceptsEvents(x.Header) {
		x.events = x.reply.Events(x.server.eventTimeout)
	}
	return x.events != nil
}

func (x *httpExchange) send(event func() error) {
	if x.broken || x.ctx.Err() != nil {
		return
	}
	if event() != nil {
		x.broken = true
		x.ctx.Cancel()
	}
}

func (*httpExchange) Call(context.Context, string, json.RawMessage) (steps.Answer, error) {
	return steps.Answer{}, dialect.ErrNoBackChannel
}

// Post implements [dialect.Poster].
func (x *httpExchange) Post(id uint64, method string, params json.RawMessage) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.events == nil && !x.open() {
		return false
	}
	x.send(func() error { return x.events.Event("", wire.AppendCall(nil, id, method, params)) })
	return !x.broken
}

// Hangup implements [dialect.Way]: the answer comes on this connection or not at all.
func (*httpExchange) Hangup(time.Duration) {}

func (x *httpExchange) KeepOpen() (ended <-chan struct{}, rerr *wire.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.events == nil && !x.open() {
		return nil, wire.Refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "a subscription is a text/event-stream, which the Accept header excludes")
	}
	x.alive = time.AfterFunc(x.server.keepAlive, x.showAlive)
	return nil, nil
}

// showAlive keeps proxies from giving up an idle stream, and finds connections that are
// dead.
func (x *httpExchange) showAlive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.broken {
		return
	}
	if x.events.Started() {
		x.send(x.events.Alive)
	}
	x.alive.Reset(x.server.keepAlive)
}
