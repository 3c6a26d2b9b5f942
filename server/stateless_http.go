package server

import (
	"net/http"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// servePost answers a message that was POSTed.
func (d *stateless) servePost(w http.ResponseWriter, r *http.Request, c caller, m *wire.Message) {
	switch {
	case m.Reply != nil:
		no := wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "this server sends no requests, so it takes no responses")
		writeJSON(w, no.Status, appendReply(nil, nil, nil, no))
		return
	case m.Notification():
		w.WriteHeader(http.StatusAccepted)
		return
	}
	req, no := d.admit(c, m, r.Header)
	if no != nil {
		writeJSON(w, no.Status, appendReply(nil, m.ID, nil, no))
		return
	}
	out := newReply(w, r)
	defer out.ctx.Cancel()
	if m.Method == listenMethod {
		d.listenHTTP(out, req)
		return
	}
	n := req.notifier(out.send)
	result, no := d.run(out.ctx, req, r.Header)
	n.close()
	status := http.StatusOK
	if no != nil {
		status = no.Status
	}
	room := d.buffers.Get()
	response := appendReply(*room, m.ID, result, no)
	if out.respond(status, response) {
		d.buffers.Put(room, response)
	}
}

// serveOther answers GET and DELETE, which this era does not have.
func (d *stateless) serveOther(w http.ResponseWriter) {
	w.Header().Set("Allow", http.MethodPost)
	no := wire.Refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "only POST is allowed")
	writeJSON(w, no.Status, appendReply(nil, nil, nil, no))
}
