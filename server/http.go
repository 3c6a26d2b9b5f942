package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Endpoint is the path at which [Server.Handler] serves MCP.
const Endpoint = "/mcp"

// Limits of HTTP connections.
const (
	headerTimeout  = 10 * time.Second
	bodyTimeout    = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	writeSlack     = 30 * time.Second
	maxHeaderBytes = 64<<10 - 4<<10 // net/http takes 4 KiB more than it is told
	// ShutdownGrace is how long [Server.Serve] lets turns under way come to
	// their end when it is stopped.
	ShutdownGrace = 20 * time.Second
)

// Handler returns the server as an HTTP handler: MCP at [Endpoint], /healthz
// (the process lives) and /readyz (send me requests). Mount it in a server of
// your own that sets timeouts, or use [Server.Serve].
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mcp := crossOrigin(s.guard, s.serveMCP)
	mux.Handle(Endpoint, mcp)
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.HandleFunc("GET /readyz", s.serveReady)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What the mux would do for almost all requests, without its search.
		if r.URL.Path == Endpoint && r.Method == http.MethodPost {
			r.Pattern = Endpoint
			mcp.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Serve serves HTTP on l until ctx ends. Then it reports at /readyz that it is
// going away, lets requests under way end, and returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Turns outlive ctx: it says when to stop listening, not to break off.
	base, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	hs := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      bodyTimeout + s.opts.TurnTimeout + engine.UndoTime + writeSlack,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.health.stopping.Store(true)
	s.CloseStreams()
	grace, cancel := context.WithTimeout(base, ShutdownGrace)
	defer cancel()
	err := hs.Shutdown(grace)
	s.Close()
	<-served
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(errors.New("server: turns were still running after the time for a graceful stop"), hs.Close())
	}
	return err
}

func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	if why := s.guard.refuse(r); why != "" {
		s.log.Info("request refused", "reason", why, "host", clip(r.Host), "origin", clip(r.Header.Get("Origin")))
		s.writeErrorTo(w, r, http.StatusForbidden, rpcError(jsonrpc2.CodeInvalidRequest, why))
		return
	}
	if isPreflight(r) {
		w.WriteHeader(http.StatusNoContent) // crossOrigin has said what is allowed
		return
	}
	var c caller
	if s.opts.Authenticate != nil {
		var err error
		if c.principal, err = s.opts.Authenticate(r); err != nil {
			s.log.Info("request refused", "reason", "not authenticated", "error", err)
			w.Header().Set("WWW-Authenticate", "Bearer")
			s.writeErrorTo(w, r, http.StatusUnauthorized, rpcError(jsonrpc2.CodeInvalidRequest, "authentication is required"))
			return
		}
	}
	c.came = r
	if r.Method != http.MethodPost {
		if modern(r.Header) {
			s.stateless.serveOther(w)
			return
		}
		s.handshake.serveOther(w, r, c)
		return
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		s.writeErrorTo(w, r, http.StatusUnsupportedMediaType, rpcError(jsonrpc2.CodeInvalidRequest, "the Content-Type must be application/json"))
		return
	}
	body, err := s.readBody(w, r)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			s.writeErrorTo(w, r, http.StatusRequestEntityTooLarge, rpcError(jsonrpc2.CodeInvalidRequest, "the message is too large"))
			return
		}
		s.writeErrorTo(w, r, http.StatusBadRequest, rpcError(jsonrpc2.CodeParseError, "the body could not be read"))
		return
	}
	endReadTimeout(w, r)
	if isBatch(body) {
		s.handshake.serveBatch(w, r, c, body)
		return
	}
	m, fail := parseMessage(body)
	if fail != nil && m.id == nil {
		s.writeErrorTo(w, r, http.StatusBadRequest, fail)
		return
	}
	if fail != nil {
		writeJSON(w, http.StatusBadRequest, appendResponse(nil, m.id, nil, fail))
		return
	}
	era := eraOf(&m, r.Header)
	if era == eraStateless {
		s.stateless.servePost(w, r, c, &m)
		return
	}
	if no := contradiction(r.Header, &m); no != nil {
		writeJSON(w, no.status, appendResponse(nil, m.id, nil, no.Error))
		return
	}
	switch era {
	case eraSaga:
		s.serveSaga(w, r, c, &m)
	default:
		s.handshake.servePost(w, r, c, &m)
	}
}

// serveSaga answers the methods of the saga proposal: always one JSON object.
func (s *Server) serveSaga(w http.ResponseWriter, r *http.Request, c caller, m *message) {
	if m.notification() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	c.named, _, _ = decodedHeader(r.Header, nameHeader)
	ctx, done := s.handshake.cancellable(r, c, m)
	defer done()
	room := s.memory.lend()
	response, fail := s.respond(*room, ctx, c, m)
	status := http.StatusOK
	if fail != nil && fail.Code == codeTryAgain {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	if writeJSON(w, status, response) {
		s.memory.takeBack(room, response)
	}
}

const jsonType = "application/json"

func isJSON(contentType string) bool {
	if contentType == jsonType { // as almost all write it
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == jsonType
}

// endReadTimeout lifts the server's ReadTimeout from a request that has been read.
// What is read from now on is that the client goes away: a deadline would look the
// same, and cancel the turn. Without the timeout there is nothing to lift.
func endReadTimeout(w http.ResponseWriter, r *http.Request) {
	if hs, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && hs.ReadTimeout <= 0 {
		return
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// firstRoom is how much memory a body gets before anything of it has come, in bytes.
// Most fit in it.
const firstRoom = 4 << 10

// readBody reads the whole body, so that the request's context ends when the
// client goes away, and never more than Options.MaxBody. What a client announces is
// no reason to set memory aside: that grows with what arrives.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	from := http.MaxBytesReader(w, r.Body, s.opts.MaxBody)
	announced := r.ContentLength
	if announced > s.opts.MaxBody {
		return nil, &http.MaxBytesError{Limit: s.opts.MaxBody}
	}
	body := make([]byte, 0, cmp.Or(min(max(announced, 0), firstRoom), firstRoom))
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case int64(len(body)) == announced:
			return body, nil // the end is known: no memory for a byte that does not come
		case len(body) == cap(body):
			room := 2 * int64(cap(body))
			if announced > 0 {
				room = min(room, announced)
			}
			body = append(make([]byte, 0, room), body...)
		}
	}
}

func (s *Server) writeError(w http.ResponseWriter, status int, e *jsonrpc2.Error) {
	writeJSON(w, status, appendResponse(nil, nil, nil, e))
}

// writeErrorTo answers a request whose id is not known: with null or without an
// id, as the revision of the request has it.
func (s *Server) writeErrorTo(w http.ResponseWriter, r *http.Request, status int, e *jsonrpc2.Error) {
	if modern(r.Header) {
		writeJSON(w, status, appendIDless(nil, e))
		return
	}
	s.writeError(w, status, e)
}

// inOneWrite is up to how many bytes net/http finds out a body's length itself.
const inOneWrite = 2 << 10

// writeJSON writes a response. It reports whether the writer has done with body: one
// that fails, as the client has gone, may leave others at work on it (as that of
// HTTP/2 did before https://go.dev/issue/58446).
func writeJSON(w http.ResponseWriter, status int, body []byte) (done bool) {
	// One array for the three values takes one allocation; nobody else has it.
	values := [...]string{jsonType, "no-store", "nosniff"}
	h := w.Header()
	h["Content-Type"] = values[0:1:1]
	h["Cache-Control"] = values[1:2:2]
	h["X-Content-Type-Options"] = values[2:3:3]
	if len(body) >= inOneWrite {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err == nil
}
