package gosdk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// handler sends each request to the SDK's handler in the mode that it needs.
type handler struct {
	stateless, sessions, sessionless http.Handler
	maxBody                          int64
	open                             openCalls
}

// NewHTTPHandler returns a handler that serves clients of all revisions at one
// address. It takes what [mcp.NewStreamableHTTPHandler] takes, which serves either
// MCP 2026-07-28 (Stateless) or clients with sessions; Stateless has no meaning
// here. Clients of the saga proposal need no session and get plain JSON; so does
// any other client that sends a request without one, and cannot be asked anything.
// Let getServer return servers that live long: one that is made and mounted for a
// request keeps its workers and memory until [Mounted.Shutdown].
//
// A nil opts is the zero value. As without this handler, the SDK checks the Host
// header of requests on the loopback interface and leaves the Origin header to
// [http.CrossOriginProtection]; wrap the handler with it. For web pages of other
// origins see docs/gosdk.md.
func NewHTTPHandler(getServer func(*http.Request) *mcp.Server, opts *mcp.StreamableHTTPOptions) http.Handler {
	var o mcp.StreamableHTTPOptions
	if opts != nil {
		o = *opts
	}
	h := &handler{maxBody: cmp.Or(o.MaxRequestBodyBytes, mcp.DefaultMaxRequestBodyBytes)}
	o.Stateless = false
	h.sessions = mcp.NewStreamableHTTPHandler(getServer, &o)
	o.Stateless = true
	h.stateless = mcp.NewStreamableHTTPHandler(getServer, &o)
	o.JSONResponse, o.EventStore = true, nil
	h.sessionless = mcp.NewStreamableHTTPHandler(getServer, &o)
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get(sessionHeader)
	switch {
	case r.Header.Get(versionHeader) >= newest:
		h.serveWhileThere(h.stateless, w, r)
	case r.Method == http.MethodPost && session == "":
		h.serveWithoutSession(w, r)
	default:
		if r.Method == http.MethodDelete && session != "" {
			// The SDK waits for the session's requests to end.
			h.open.hangUp(session, userOf(auth.TokenInfoFromContext(r.Context())))
		}
		h.sessions.ServeHTTP(w, r)
	}
}

const (
	versionHeader = "MCP-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// maxInitialize is how long a message may be that opens a session, in bytes.
const maxInitialize = 1 << 20

// serveWithoutSession serves a request without a session. Only the body tells whether it is to open one. No more of it is
// kept than that takes, and only until the SDK, which bounds bodies, has read it anew.
func (h *handler) serveWithoutSession(w http.ResponseWriter, r *http.Request) {
	most := int64(maxInitialize)
	if h.maxBody > 0 {
		most = min(most, h.maxBody)
	}
	begin, _ := io.ReadAll(io.LimitReader(r.Body, most)) // the SDK meets the error, too
	again := *r
	again.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), r.Body), r.Body}
	if opensSession(begin) {
		// What comes in the session has the values of this context.
		ctx := context.WithValue(r.Context(), openKey{}, &h.open)
		h.sessions.ServeHTTP(w, again.WithContext(ctx))
		return
	}
	h.serveWhileThere(h.sessionless, w, &again)
}

// opensSession reports whether a message is an initialize of revisions that have it.
// One that can be read in two ways is not.
func opensSession(raw []byte) bool {
	if !json.Valid(raw) {
		return false
	}
	methods, opens := 0, true
	for name, v := range jsonview.Members(raw) {
		switch string(name) {
		case "method":
			methods++
			opens = opens && jsonview.Is(v, "initialize")
		case "params":
			revision, _ := jsonview.String(jsonview.Get(v, "_meta", revisionMember))
			opens = opens && revision < newest
		}
	}
	return methods == 1 && opens
}

// revisionMember is where the _meta of requests of MCP 2026-07-28 names the revision.
const revisionMember = "io.modelcontextprotocol/protocolVersion"

// requestKey is where the context of a call has that of its HTTP request.
type requestKey struct{}

// serveWhileThere has the calls of a request end when its client goes away: without a session no client can come back for
// the result. The SDK lets them run on, and answers nothing once the context of the request has ended, which may be the doing of
// middleware: then the client still reads.
func (h *handler) serveWhileThere(by http.Handler, w http.ResponseWriter, r *http.Request) {
	noted := &notedWriter{ResponseWriter: w}
	there := r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context()))
	if h.maxBody > 0 {
		// The SDK does so too, but with noted, by which a reader cannot tell the server that much is left to be read: a client
		// that still writes, on a connection that is to be closed, may then meet a reset instead of the answer.
		there.Body = http.MaxBytesReader(w, r.Body, h.maxBody)
	}
	by.ServeHTTP(noted, there)
	if r.Context().Err() != nil && !noted.begun {
		// What the call has done is not known here, and some of it may be final.
		http.Error(w, "the request was cut off, and may have been carried out: find out before you send it again", http.StatusGatewayTimeout)
	}
}

// notedWriter notes whether a response has begun.
type notedWriter struct {
	http.ResponseWriter
	begun bool
}

func (w *notedWriter) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *notedWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

func (w *notedWriter) FlushError() error {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *notedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// untilGone returns a context that ends with a call's and, if it is to, with that of its HTTP request, and what ends it.
func untilGone(call context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, hangUp := context.WithCancelCause(context.WithoutCancel(call))
	context.AfterFunc(call, func() { hangUp(whyOver(call)) })
	if request, ok := call.Value(requestKey{}).(context.Context); ok {
		context.AfterFunc(request, func() { hangUp(nil) })
	}
	return ctx, hangUp
}

// whyOver is why the context of a call has ended. If its connection has broken, the SDK gives the error of reading or writing.
func whyOver(call context.Context) error {
	why := context.Cause(call)
	if errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return fmt.Errorf("%w: %w", turns.ErrGone, why)
}

// errEnded is why the calls of a session end that its client has ended.
var errEnded = fmt.Errorf("%w: it ended the session", turns.ErrGone)

// openCalls are the calls of sessions under way, by what ends each. The SDK ends a session once all its requests have
// ended; but a client that wants it to end neither answers nor reads any more.
type openCalls struct{ all sync.Map }

// sessionUser is a session and whose it is, as the SDK binds one to the other.
type sessionUser struct{ session, user string }

func userOf(t *auth.TokenInfo) string {
	if t == nil {
		return ""
	}
	return t.UserID
}

// openKey is where the context of a session has the handler's calls.
type openKey struct{}

// begin notes a call; done forgets it.
func (o *openCalls) begin(of sessionUser, hangUp context.CancelCauseFunc) (done func()) {
	o.all.Store(&hangUp, of)
	return func() { o.all.Delete(&hangUp) }
}

// hangUp ends the calls of a session.
func (o *openCalls) hangUp(session, user string) {
	for hangUp, of := range o.all.Range {
		if of == (sessionUser{session, user}) {
			(*hangUp.(*context.CancelCauseFunc))(errEnded)
		}
	}
}
