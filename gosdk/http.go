package gosdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// handler sends each request to the SDK's handler in the mode that it needs.
type handler struct {
	stateless, sessions, strangers http.Handler
	maxBody                        int64
	asking                         asking
}

// NewHTTPHandler returns a handler that serves clients of all revisions at one
// address. It takes what [mcp.NewStreamableHTTPHandler] takes, which serves either
// MCP 2026-07-28 (Stateless) or clients with sessions; Stateless has no meaning
// here. Clients of the saga proposal need no session to call and list tools; they get
// plain JSON.
//
// A nil opts is the zero value. As without this handler, the SDK checks the Host
// header of requests on the loopback interface and leaves the Origin header to
// [http.CrossOriginProtection]; wrap the handler with it.
func NewHTTPHandler(getServer func(*http.Request) *mcp.Server, opts *mcp.StreamableHTTPOptions) http.Handler {
	var o mcp.StreamableHTTPOptions
	if opts != nil {
		o = *opts
	}
	h := &handler{maxBody: o.MaxRequestBodyBytes}
	if h.maxBody == 0 {
		h.maxBody = mcp.DefaultMaxRequestBodyBytes
	}
	o.Stateless = false
	h.sessions = mcp.NewStreamableHTTPHandler(getServer, &o)
	o.Stateless = true
	h.stateless = mcp.NewStreamableHTTPHandler(getServer, &o)
	o.JSONResponse, o.EventStore = true, nil
	h.strangers = mcp.NewStreamableHTTPHandler(getServer, &o)
	return h
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get(sessionHeader)
	switch {
	case r.Header.Get(versionHeader) >= newest:
		h.stateless.ServeHTTP(w, r)
	case r.Method == http.MethodPost && session == "":
		h.serveStranger(w, r)
	case r.Method == http.MethodDelete && session != "":
		h.serveGoodbye(w, r, session)
	default:
		h.sessions.ServeHTTP(w, r)
	}
}

const (
	versionHeader = "MCP-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// serveStranger serves a request without a session: one that opens one, or of a
// client that needs none, or of MCP 2026-07-28 without its headers. Only the body
// tells.
func (h *handler) serveStranger(w http.ResponseWriter, r *http.Request) {
	body := r.Body
	if h.maxBody > 0 {
		body = http.MaxBytesReader(w, r.Body, h.maxBody)
	}
	raw, err := io.ReadAll(body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "the request could not be read", http.StatusBadRequest)
		return
	}
	again := *r
	again.Body = io.NopCloser(bytes.NewReader(raw))
	switch m := read(raw); {
	case slices.Contains(open, m.method) && m.version < newest || slices.Contains(sagaMethods, m.method):
		h.strangers.ServeHTTP(w, &again)
	case m.version >= newest:
		refuseHeaderless(w, m)
	default:
		// What comes in a session has the values of the context in which it began.
		ctx := context.WithValue(r.Context(), askingKey{}, &h.asking)
		h.sessions.ServeHTTP(w, again.WithContext(ctx))
	}
}

// open are the methods besides the saga proposal's that need no session.
var open = []string{"tools/list", "ping"}

// unsent is what is read of a message before it is known who serves it.
type unsent struct{ id, method, version string }

// read reads a message. One that could be read in two ways is not read.
func read(raw []byte) (m unsent) {
	if !gjson.ValidBytes(raw) {
		return unsent{}
	}
	methods := 0
	gjson.ParseBytes(raw).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "id":
			m.id = v.Raw
		case "method":
			m.method = v.Str
			methods++
		case "params":
			m.version = v.Get(versionMember).Str
		}
		return true
	})
	if methods != 1 {
		return unsent{}
	}
	return m
}

// refuseHeaderless refuses a request of MCP 2026-07-28 whose header does not say so.
// Any of the SDK's handlers would say something else, or take the message for one
// of an older revision.
func refuseHeaderless(w http.ResponseWriter, m unsent) {
	id := ""
	if m.id != "" {
		id = `"id":` + m.id + `,`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	// An error means that nobody reads it.
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0",%s"error":{"code":%d,"message":"the header %s is missing, or does not say what the request says"}}`, id, mcp.CodeHeaderMismatch, versionHeader)
}

// versionMember is where requests of MCP 2026-07-28 name the revision.
const versionMember = `_meta.io\.modelcontextprotocol/protocolVersion`

// serveGoodbye serves the end of a session. The SDK waits for the session's
// requests to end; those that wait for an answer of the client's end first.
func (h *handler) serveGoodbye(w http.ResponseWriter, r *http.Request, session string) {
	h.asking.silence(session, userOf(auth.TokenInfoFromContext(r.Context())))
	h.sessions.ServeHTTP(w, r)
}
