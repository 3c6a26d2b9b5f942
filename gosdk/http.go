package gosdk

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// handler sends each request to the SDK's handler in the mode that it needs.
type handler struct {
	stateless, sessions, strangers http.Handler
	maxBody                        int64
}

// NewHTTPHandler returns a handler that serves clients of all revisions at one
// address. It takes what [mcp.NewStreamableHTTPHandler] takes, which serves either
// MCP 2026-07-28 (Stateless) or clients with sessions; Stateless has no meaning
// here. Clients of the saga proposal need no session and get plain JSON; so does
// whoever else sends a request without one, and cannot be asked anything.
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
	o.JSONResponse = true
	h.strangers = mcp.NewStreamableHTTPHandler(getServer, &o)
	return h
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("MCP-Protocol-Version") >= newest:
		h.stateless.ServeHTTP(w, r)
	case r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "":
		h.serveStranger(w, r)
	default:
		h.sessions.ServeHTTP(w, r)
	}
}

// serveStranger serves a request without a session. Only the body tells whether it
// is to open one.
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
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if gjson.GetBytes(raw, "method").Str == "initialize" {
		h.sessions.ServeHTTP(w, r)
		return
	}
	h.strangers.ServeHTTP(w, r)
}
