package server

import (
	"net/http"
)

// stateless is the dialect of MCP 2026-07-28.
type stateless struct{ *Server }

// servePost answers a message that was POSTed.
func (d *stateless) servePost(w http.ResponseWriter, r *http.Request, c caller, m *message) {
	writeJSON(w, http.StatusOK, d.answer(r.Context(), c, m))
}

// statelessLines is the dialect on one stdio connection.
type statelessLines struct {
	*stateless
	lines *lineStream
}

// answer handles a request and returns the response, or nil for none.
func (d *statelessLines) answer(call *stdioCall) []byte {
	return d.Server.answer(call.ctx, caller{}, &call.message)
}

// close ends what is still open when the connection ends.
func (d *statelessLines) close() {}
