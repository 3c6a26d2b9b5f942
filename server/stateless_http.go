package server

import (
	"net/http"

	"github.com/sourcegraph/jsonrpc2"
)

// servePost answers a message that was POSTed.
func (d *stateless) servePost(w http.ResponseWriter, r *http.Request, c caller, m *message) {
	switch {
	case m.reply != nil:
		no := refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidRequest, "this server sends no requests, so it takes no responses")
		writeJSON(w, no.status, appendReply(nil, nil, nil, no))
		return
	case m.notification():
		w.WriteHeader(http.StatusAccepted)
		return
	}
	req, no := d.admit(c, m, r.Header)
	if no != nil {
		writeJSON(w, no.status, appendReply(nil, m.id, nil, no))
		return
	}
	out := newReply(w, r)
	defer out.ctx.Cancel()
	if m.method == listenMethod {
		d.listenHTTP(out, req)
		return
	}
	n := req.notifier(out.send)
	result, no := d.run(out.ctx, req)
	n.close()
	status := http.StatusOK
	if no != nil {
		status = no.status
	}
	room := d.memory.lend()
	response := appendReply(*room, m.id, result, no)
	if out.respond(status, response) {
		d.memory.takeBack(room, response)
	}
}

// serveOther answers GET and DELETE, which this era does not have.
func (d *stateless) serveOther(w http.ResponseWriter) {
	w.Header().Set("Allow", http.MethodPost)
	no := refuse(http.StatusMethodNotAllowed, jsonrpc2.CodeInvalidRequest, "only POST is allowed")
	writeJSON(w, no.status, appendReply(nil, nil, nil, no))
}
