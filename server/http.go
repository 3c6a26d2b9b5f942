package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/lazyctx"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Endpoint is the path at which [Server.Handler] serves MCP.
const Endpoint = "/mcp"

// Limits of HTTP connections.
const (
	headerTimeout  = 10 * time.Second
	bodyTimeout    = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	writeSlack     = 30 * time.Second
	maxHeaderBytes = 64<<10 - 4<<10 // net/http takes 4 KiB more than its limit
	// shutdownGrace is how long [Server.Serve] lets turns under way come to their end when it is stopped. Those that
	// do not are cut off, and undone.
	shutdownGrace = 20 * time.Second
	// undoSlack is for how long what is undone then may take to be written and sent.
	undoSlack = 5 * time.Second
	// lastWords is for how long clients may take then to read their answers.
	lastWords = 5 * time.Second
	// closingTime is for how long a server that is stopped still takes requests on connections
	// that it has, and tells their owners to close them: a proxy that keeps a connection may be
	// sending a request just when its end comes. The time begins when the streams have ended that
	// were open, if that takes no longer than closingMost.
	closingTime = time.Second
	closingMost = 5 * time.Second
)

// Handler returns the server as an HTTP handler: MCP at [Endpoint], /healthz
// (the process lives), /readyz (send me requests), and the [Server.Pages] at the
// path of their URL, if that has one, and the [Server.EventHandler] at Options.EventPath; Options.Wrap may add to that. Mount it in a server of
// your own that sets timeouts, or use [Server.Serve].
func (s *Server) Handler() http.Handler {
	s.keeper.begin()
	mux := http.NewServeMux()
	mux.Handle(Endpoint, s.guard.crossOrigin().Handler(http.HandlerFunc(s.serveMCP)))
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.HandleFunc("GET /readyz", s.serveReady)
	if s.pages != nil && s.pagesAt.Path != "" {
		mux.Handle(s.pagesAt.Path+"/", http.StripPrefix(s.pagesAt.Path, s.pages))
	}
	if at := s.opts.EventPath; at != "" {
		mux.Handle(at+"/", http.StripPrefix(at, s.EventHandler()))
	}
	if s.opts.Wrap != nil {
		return s.opts.Wrap(mux)
	}
	return mux
}

// Serve serves HTTP on l until ctx ends. Then it reports at /readyz that it is
// going away, lets requests under way end, and returns nil. It cuts off turns that take longer than 20 seconds more, which
// are undone within a minute, and answers their clients.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Turns outlive ctx: it says when to stop listening, not to break off.
	base, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	hs := &http.Server{
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      bodyTimeout + s.opts.TurnTimeout + engine.UndoTime + writeSlack,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	var open connections
	hs.Handler, hs.ConnState = open.counting(s.Handler(), &s.health.stopping), open.count
	served := make(chan error, 1)
	go func() { served <- hs.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.health.stopping.Store(true)
	s.CloseStreams()
	open.wait(closingTime, closingMost)
	grace, cancel := context.WithTimeout(base, shutdownGrace)
	defer cancel()
	err := hs.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		abort(dialect.ErrStopping)
		undone, cancel := context.WithTimeout(context.Background(), engine.UndoTime+undoSlack)
		defer cancel()
		s.sessions.Close(undone)
		for s.working.Load() > 0 && undone.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		reading, cancel := context.WithTimeout(undone, lastWords)
		defer cancel()
		err = hs.Shutdown(reading)
		s.keeper.settled(undone)
	}
	s.Close()
	<-served
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case s.working.Load() > 0:
		return errors.Join(errors.New("server: turns were still running after the time for a graceful stop"), hs.Close())
	}
	s.log.Warn("connections were cut that were still in use: their clients may not have read what they were sent")
	return hs.Close()
}

// serveMCP serves one HTTP exchange. Streams wait here: what is only needed to read the message
// is done in functions that have returned by then, and leave their stack free.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	if s.keeper != nil {
		r = r.WithContext(durable.Patient(r.Context()))
	}
	x := &httpExchange{server: s, request: r, reply: wire.Reply{Writer: w}}
	defer func() { x.Large.Leave() }()
	if !s.read(x, w) {
		return
	}
	if x.Dialect == dialect.Dialect(s.sessions) {
		s.sessions.Reply(x.request.Context(), &x.Exchange, x.reply)
		return
	}
	x.answer()
}

// read checks what no dialect needs to know of, reads the message and finds its dialect. It returns
// false if it has answered the exchange.
func (s *Server) read(x *httpExchange, w http.ResponseWriter) bool {
	r, reply := x.request, x.reply
	if !wire.CanFlush(w) {
		s.unflushed.Do(func() {
			s.log.Error("no streams: middleware has wrapped the http.ResponseWriter in one that cannot flush: give it an Unwrap method, as of http.ResponseController", "type", fmt.Sprintf("%T", w))
		})
	}
	if s.health.stopping.Load() {
		w.Header().Set("Connection", "close")
	}
	if why := s.guard.refuse(r); why != "" {
		s.log.Info("request refused", "reason", why, "host", clip(r.Host), "origin", clip(r.Header.Get("Origin")))
		s.refuse(reply, r, wire.Refuse(http.StatusForbidden, wire.CodeInvalidRequest, why))
		return false
	}
	if r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		w.WriteHeader(http.StatusNoContent) // a browser asks on behalf of a page; crossOrigin has said what is allowed
		return false
	}
	m := &x.message
	x.Exchange = dialect.Exchange{Message: m, Header: r.Header, HTTPMethod: r.Method, Remote: r.RemoteAddr}
	who, rerr := s.callerOf(r)
	if rerr != nil {
		s.refuse(reply, r, rerr)
		return false
	}
	if who != nil {
		x.Principal, x.request = who.Binding(), r.WithContext(engine.WithCaller(r.Context(), who))
	}
	x.Account = s.account(r, x.Principal)
	if r.Method == http.MethodPost {
		rerr = s.readMessage(x, w)
	} else {
		x.Dialect = s.match(m, r.Header)
	}
	remembers := x.Dialect == dialect.Dialect(s.sessions)
	switch {
	case rerr != nil && m.ID != nil:
		reply.Error(m.ID, rerr)
	case rerr != nil:
		s.refuse(reply, r, rerr)
	case remembers:
		return true
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		s.refuse(reply, r, wire.Refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "only POST is allowed"))
	case m.Reply != nil:
		s.refuse(reply, r, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "this server sends no requests, so it takes no responses"))
	case m.ID != nil:
		return true
	default:
		if rerr := s.host.GuestCancelled(x.request.Context(), &x.Exchange); rerr != nil {
			reply.Error(nil, rerr)
			return false
		}
		reply.Empty(http.StatusAccepted)
	}
	return false
}

// readMessage reads what was POSTed, a message or a batch, and finds its dialect.
func (s *Server) readMessage(x *httpExchange, w http.ResponseWriter) *wire.Error {
	r := x.request
	if kind := r.Header.Get("Content-Type"); kind != jsonType { // as almost all write it
		if kind, _, err := mime.ParseMediaType(kind); err != nil || kind != jsonType {
			return wire.Refuse(http.StatusUnsupportedMediaType, wire.CodeInvalidRequest, "the Content-Type must be application/json")
		}
	}
	body, rerr := s.host.ReadBody(w, r, &x.Exchange)
	if rerr != nil {
		return rerr
	}
	if jsontext.Value(body).Kind() == '[' {
		if s.match(&x.message, x.Header) != dialect.Dialect(s.sessions) {
			return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, wire.BatchText)
		}
		x.Dialect, x.Batch = s.sessions, new(dialect.Batch)
		x.Batch.Messages, x.Batch.Error = s.parseBatch(body)
		return nil
	}
	if x.message, rerr = wire.Parse(body); rerr != nil {
		rerr.Status = http.StatusBadRequest
		return rerr
	}
	if x.Dialect = s.match(&x.message, x.Header); x.Dialect == nil {
		return notServed()
	}
	if _, ok := x.Dialect.(dialect.Strict); !ok {
		return dialect.Contradiction(x.Header, &x.message)
	}
	return nil
}

// refuse answers a request whose id is not known: with null or without an id, as the
// dialect of the request has it.
func (s *Server) refuse(reply wire.Reply, r *http.Request, rerr *wire.Error) {
	if _, ok := s.match(&wire.Message{}, r.Header).(dialect.Strict); ok {
		reply.Response(wire.AppendErrorWithoutID(nil, rerr), rerr)
		return
	}
	reply.Error(nil, rerr)
}

// match returns the dialect that serves a message, or nil.
func (s *Server) match(m *wire.Message, header http.Header) dialect.Dialect {
	for _, d := range s.dialects {
		if d.Match(m, header) {
			return d
		}
	}
	return nil
}

const jsonType = "application/json"

// keepAlive is how often an idle event stream shows that it is alive.
const keepAlive = 15 * time.Second

// httpExchange is a request that was POSTed, and the way back to its client. The response
// is a JSON object unless something is to be said before; then it becomes a stream of
// events that ends with the response (MCP 2026-07-28, basic/transports/streamable-http).
// Until then nothing is written, as some errors must have a status of their own.
type httpExchange struct {
	dialect.Exchange
	server  *Server
	request *http.Request
	message wire.Message
	reply   wire.Reply
	ctx     lazyctx.Context // ends when the client has gone

	mu     sync.Mutex
	events *wire.EventStream // nil until something is to be said
	alive  *time.Timer       // shows now and then that the stream is; nil without one
	broken bool
	over   bool
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
		joined, leave := s.sessions.Join(ctx, &x.Exchange)
		defer leave()
		ctx = joined
	}
	result, rerr := x.work(ctx)
	response := wire.AppendResponse(nil, x.message.ID, result, rerr)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	switch {
	case x.gone() && x.events != nil && x.events.Started(): // nothing is sent to a client that has cancelled by going away
	case x.gone():
		if rerr != nil && rerr.Fault { // the client may still read: others end contexts, too. Other errors say what may be done
			rerr = wire.Later(http.StatusServiceUnavailable, "", cutText, time.Second)
			response = wire.AppendResponse(nil, x.message.ID, nil, rerr)
		}
		x.reply.Response(response, rerr)
	case x.events != nil && x.events.Started():
		x.send(func() error { return x.events.Event("", response) })
	default:
		x.reply.Response(response, rerr)
	}
}

const cutText = "the request was cut off: send the same request again"

func (x *httpExchange) work(ctx context.Context) ([]byte, *wire.Error) {
	x.server.working.Add(1)
	defer x.server.working.Add(-1)
	return x.server.host.Dispatch(ctx, &x.Exchange, nil)
}

// gone reports whether the client has gone, as far as is known.
func (x *httpExchange) gone() bool {
	return x.ctx.Err() != nil && context.Cause(&x.ctx) != dialect.ErrStopping
}

// Notify implements [dialect.Way]. A client that does not take it is treated as gone.
func (x *httpExchange) Notify(method string, params json.RawMessage) { x.Post(0, method, params) }

// open begins the stream, if the client takes one.
func (x *httpExchange) open() bool {
	if x.reply.Streams(x.Header) {
		x.events = x.reply.Events(x.server.eventTimeout)
		x.alive = time.AfterFunc(x.server.keepAlive, x.showAlive)
	}
	return x.events != nil
}

func (x *httpExchange) send(event func() error) {
	if x.broken || x.gone() {
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

// Post implements [dialect.Poster]. Without an id it sends a notification.
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

func (x *httpExchange) KeepOpen() *wire.Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.events == nil && !x.open() {
		return wire.Refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "a subscription is a text/event-stream, which the Accept header excludes, or the server's middleware does not pass on")
	}
	return nil
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
