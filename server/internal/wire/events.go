package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// EventsType is the content type of event streams.
const EventsType = "text/event-stream"

// comeBack is how long a client waits before it comes back to a stream that it can
// resume, unless told otherwise.
const comeBack = time.Second

// EventStream writes server-sent events. It is not safe for concurrent use.
type EventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	// patience is how long a client may take to accept an event: http.Server's own limit
	// is for the whole response, which may be a stream without an end.
	patience time.Duration
	started  bool
	buf      []byte
}

// Start sends the header, which otherwise goes out with the first event.
func (s *EventStream) Start() error { return s.send(nil) }

// Started reports whether anything has been sent.
func (s *EventStream) Started() bool { return s.started }

// Prime sends the event that a client can resume from before there is another.
func (s *EventStream) Prime(id string) error {
	return s.send(append(appendRetry(appendField(s.buf[:0], "id", id), comeBack), "data:\n\n"...))
}

// Retry tells when to come back.
func (s *EventStream) Retry(after time.Duration) error {
	return s.send(append(appendRetry(s.buf[:0], after), '\n'))
}

// Event sends a message, which has no line ends. Without an id it cannot be resumed
// after.
func (s *EventStream) Event(id string, message []byte) error {
	b := s.buf[:0]
	if id != "" {
		b = appendField(b, "id", id)
	}
	return s.send(append(append(append(b, "data: "...), message...), "\n\n"...))
}

// Alive sends a comment, which clients skip. It shows proxies that the stream is in
// use, and us that the connection is.
func (s *EventStream) Alive() error { return s.send([]byte(":\n\n")) }

// End lifts the limit on writing, or the connection's next response would have it.
func (s *EventStream) End() { s.rc.SetWriteDeadline(time.Time{}) }

func (s *EventStream) send(b []byte) error {
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", EventsType)
		h.Set("Cache-Control", "no-cache, no-store")
		h.Set("X-Accel-Buffering", "no") // for proxies: pass on each event at once
		h.Set("X-Content-Type-Options", "nosniff")
		s.w.WriteHeader(http.StatusOK)
	}
	// Writers that know no deadlines, as in tests, do without.
	s.rc.SetWriteDeadline(time.Now().Add(s.patience))
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

// AcceptsEvents reports whether the client takes event streams. One that says nothing
// takes all.
func AcceptsEvents(h http.Header) bool {
	values := h.Values("Accept")
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return true
	}
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case EventsType, "text/*", "*/*":
				return true
			}
		}
	}
	return false
}
