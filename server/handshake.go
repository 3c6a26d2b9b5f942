package server

import (
	"net/http"

	"github.com/sourcegraph/jsonrpc2"
)

// handshake is the dialect of MCP 2024-11-05 to 2025-11-25.
type handshake struct{ *Server }

// servePost answers a message that was POSTed.
func (d *handshake) servePost(w http.ResponseWriter, r *http.Request, c caller, m *message) {
	switch {
	case m.reply != nil:
		d.writeError(w, http.StatusBadRequest, rpcError(jsonrpc2.CodeInvalidRequest, "this server sends no requests, so it takes no responses"))
	case m.notification():
		w.WriteHeader(http.StatusAccepted)
	default:
		writeJSON(w, http.StatusOK, d.answer(r.Context(), c, m))
	}
}

// serveOther answers GET and DELETE.
func (d *handshake) serveOther(w http.ResponseWriter, r *http.Request, c caller) {
	w.Header().Set("Allow", http.MethodPost)
	d.writeError(w, http.StatusMethodNotAllowed, rpcError(jsonrpc2.CodeInvalidRequest, "only POST is allowed"))
}

// handshakeLines is the dialect on one stdio connection.
type handshakeLines struct {
	*handshake
	lines *lineStream
	// conn sends requests to the client.
	conn *jsonrpc2.Conn
}

// arrived sees every request in the order of the lines, before it is answered.
func (d *handshakeLines) arrived(call *stdioCall) {}

// notified handles a notification, in the order of the lines.
func (d *handshakeLines) notified(m *message) {}

// answer handles a request and returns the response, or nil for none.
func (d *handshakeLines) answer(call *stdioCall) []byte {
	return d.Server.answer(call.ctx, caller{}, &call.message)
}

// close ends what is still open when the connection ends.
func (d *handshakeLines) close() {}
