package server

import (
	"net/http"
	"strconv"
	"time"
)

const (
	// sseDelay is how long a response may take before the stream opens, so that
	// short answers are plain JSON.
	sseDelay = 50 * time.Millisecond
	// sseAlive is how often an idle stream shows that it lives; a connection
	// that is dead is noticed by it.
	sseAlive = 15 * time.Second
	// ssePatience is how long a client may take to accept what is written.
	ssePatience = 30 * time.Second
	// sseRetry is how long a client waits before it comes back, unless told
	// otherwise.
	sseRetry = time.Second
)

// sseWriter writes server-sent events.
type sseWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte
}

// newSSE frees the connection of the server's limit on reading, whose end the
// server takes for the client's going away.
func newSSE(w http.ResponseWriter) *sseWriter {
	s := &sseWriter{w: w, rc: http.NewResponseController(w)}
	s.rc.SetReadDeadline(time.Time{}) // an error means that there is no such limit
	return s
}

// start sends the header.
func (s *sseWriter) start() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no") // or proxies of this kind hold events back
	h.Set("X-Content-Type-Options", "nosniff")
	s.w.WriteHeader(http.StatusOK)
	return s.send(nil)
}

// prime sends the event that a client can resume from before there is another.
func (s *sseWriter) prime(id string) error {
	return s.send(append(appendRetry(appendField(s.buf[:0], "id", id), sseRetry), "data:\n\n"...))
}

// retry tells when to come back.
func (s *sseWriter) retry(after time.Duration) error {
	return s.send(append(appendRetry(s.buf[:0], after), '\n'))
}

func (s *sseWriter) event(id string, data []byte) error {
	b := appendField(s.buf[:0], "id", id)
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	return s.send(b)
}

// alive sends a comment, which clients skip.
func (s *sseWriter) alive() error { return s.send([]byte(":\n\n")) }

// end lifts the limit on writing, or the connection's next response would have it.
func (s *sseWriter) end() { s.rc.SetWriteDeadline(time.Time{}) }

func (s *sseWriter) send(b []byte) error {
	// In place of the server's limit, which is for the whole response.
	s.rc.SetWriteDeadline(time.Now().Add(ssePatience))
	if len(b) > 0 {
		if cap(b) <= 64<<10 {
			s.buf = b
		}
		if _, err := s.w.Write(b); err != nil {
			return err
		}
	}
	return s.rc.Flush()
}

func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), '\n')
}

func appendRetry(b []byte, after time.Duration) []byte {
	return appendField(b, "retry", strconv.FormatInt(max(after.Milliseconds(), 0), 10))
}
