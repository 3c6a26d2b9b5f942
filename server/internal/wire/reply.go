package wire

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const jsonType = "application/json"

// Reply is the answer to one HTTP exchange: a JSON object, a stream of events, or nothing
// but a status.
type Reply struct{ w http.ResponseWriter }

// NewReply returns the reply that is written to w.
func NewReply(w http.ResponseWriter) Reply { return Reply{w} }

// Header returns the header, which is sent with what comes first.
func (r Reply) Header() http.Header { return r.w.Header() }

// Empty sends a status alone.
func (r Reply) Empty(status int) { r.w.WriteHeader(status) }

// inOneWrite is up to how many bytes net/http finds out a body's length itself.
const inOneWrite = 2 << 10

// JSON sends a JSON object. It reports whether the writer has done with body: one
// that fails, as the client has gone, may leave others at work on it (as that of
// HTTP/2 did before https://go.dev/issue/58446).
func (r Reply) JSON(status int, body []byte) (done bool) {
	// One array for the three values takes one allocation; nobody else has it.
	values := [...]string{jsonType, "no-store", "nosniff"}
	h := r.w.Header()
	h["Content-Type"] = values[0:1:1]
	h["Cache-Control"] = values[1:2:2]
	h["X-Content-Type-Options"] = values[2:3:3]
	if len(body) >= inOneWrite {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	r.w.WriteHeader(status)
	_, err := r.w.Write(body)
	return err == nil
}

// Error sends an error response to the request with that id; nil is none that is known.
func (r Reply) Error(id jsontext.Value, rerr *Error) {
	r.JSON(r.status(rerr), AppendResponse(nil, id, nil, rerr))
}

// Response sends a whole response, which has that error if it has one. See JSON.
func (r Reply) Response(response []byte, rerr *Error) (done bool) {
	return r.JSON(r.status(rerr), response)
}

// status returns the status of an error, or 200, and says when to come back.
func (r Reply) status(rerr *Error) int {
	if rerr == nil {
		return http.StatusOK
	}
	if rerr.RetryAfter > 0 {
		r.w.Header().Set("Retry-After", strconv.Itoa(int(rerr.RetryAfter/time.Second)))
	}
	if rerr.Status == 0 {
		return http.StatusOK
	}
	return rerr.Status
}

// Events returns the reply as a stream of events, which has not begun. A client may take
// as long as patience to accept one.
func (r Reply) Events(patience time.Duration) *EventStream {
	s := &EventStream{w: r.w, rc: http.NewResponseController(r.w), patience: patience}
	// The server takes the end of its limit on reading for the client's going away. An
	// error means that there is no such limit.
	s.rc.SetReadDeadline(time.Time{})
	return s
}
