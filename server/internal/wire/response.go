package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AppendResponse writes a response. Without an id, an error says null (JSON-RPC 2.0, section 5).
func AppendResponse(b []byte, id jsontext.Value, result []byte, rerr *Error) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	b = slices.Grow(b, len(`{"jsonrpc":"2.0","id":,"result":}`)+len(id)+len(result))
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if rerr != nil {
		return append(AppendErrorObject(append(b, `,"error":`...), rerr), '}')
	}
	return append(append(append(b, `,"result":`...), result...), '}')
}

// AppendErrorWithoutID says from MCP 2026-07-28 on (basic/index) that a request's id could not be read.
func AppendErrorWithoutID(b []byte, rerr *Error) []byte {
	return append(AppendErrorObject(append(b, `{"jsonrpc":"2.0","error":`...), rerr), '}')
}

// AppendErrorObject writes an error object alone: code, message and data.
func AppendErrorObject(b []byte, rerr *Error) []byte {
	raw, _ := Marshal(rerr) // the data were checked
	return append(b, raw...)
}

// AppendString writes a JSON string. What is not UTF-8 is replaced.
func AppendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(b, string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD"))))
	}
	return out
}

// AppendCall writes a request of the server's own, or without an id a notification; params may be nil. The method needs no escapes.
func AppendCall(b []byte, id uint64, method string, params []byte) []byte {
	b = slices.Grow(b, len(`{"jsonrpc":"2.0","id":18446744073709551615,"method":"","params":}`)+len(method)+len(params))
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		b = append(strconv.AppendUint(append(b, `"id":`...), id, 10), ',')
	}
	b = append(append(append(b, `"method":"`...), method...), '"')
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// Marshal writes the same value as the same bytes, and empty lists as such. What is not UTF-8 is replaced.
func Marshal(v any) (json.RawMessage, error) {
	return jsonv2.Marshal(v, jsonv2.FormatNilSliceAsNull(false), jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

const jsonType = "application/json"

// Reply is the answer to one HTTP exchange: a JSON object, a stream of events, or a status alone.
type Reply struct {
	// Writer is what the reply is written to.
	Writer http.ResponseWriter
}

// Header returns the header, which is sent with what comes first.
func (r Reply) Header() http.Header { return r.Writer.Header() }

// Empty sends a status alone.
func (r Reply) Empty(status int) { r.Writer.WriteHeader(status) }

// inOneWrite is up to how many bytes net/http finds out a body's length itself.
const inOneWrite = 2 << 10

// JSON sends a JSON object.
func (r Reply) JSON(status int, body []byte) {
	// One array for the three values takes one allocation.
	values := [...]string{jsonType, "no-store", "nosniff"}
	h := r.Writer.Header()
	h["Content-Type"] = values[0:1:1]
	h["Cache-Control"] = values[1:2:2]
	h["X-Content-Type-Options"] = values[2:3:3]
	if len(body) >= inOneWrite {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	r.Writer.WriteHeader(status)
	_, _ = r.Writer.Write(body) // it fails if the client has gone
}

// Error sends an error response to the request with that id; nil is none that is known.
func (r Reply) Error(id jsontext.Value, rerr *Error) {
	r.Response(AppendResponse(nil, id, nil, rerr), rerr)
}

// Response sends a whole response, which is that error unless it is nil.
func (r Reply) Response(response []byte, rerr *Error) {
	if rerr == nil {
		r.JSON(http.StatusOK, response)
		return
	}
	if rerr.RetryAfter > 0 {
		r.Writer.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(rerr.RetryAfter.Seconds()))))
	}
	if rerr.Challenge != "" {
		r.Writer.Header().Set("WWW-Authenticate", rerr.Challenge)
	}
	r.JSON(cmp.Or(rerr.Status, http.StatusOK), response)
}

// Lasting has the reply outlive its server's limit on writing, which began with the request. What is written once soon was called
// has as long as patience.
func (r Reply) Lasting(ctx context.Context, patience time.Duration) (soon func()) {
	server, ok := ctx.Value(http.ServerContextKey).(*http.Server)
	if !ok || server.WriteTimeout <= 0 { // none sets it anew for the next request
		return func() {}
	}
	c := http.NewResponseController(r.Writer)
	c.SetWriteDeadline(time.Time{})
	return func() { c.SetWriteDeadline(time.Now().Add(max(patience, server.WriteTimeout))) }
}

// Events returns the reply as a stream, not begun yet. A client may take as long as patience to accept an event.
func (r Reply) Events(patience time.Duration) *EventStream {
	s := &EventStream{w: r.Writer, rc: http.NewResponseController(r.Writer), patience: patience}
	// At the end of its limit on reading, the server takes the client for gone. An error: there is none.
	s.rc.SetReadDeadline(time.Time{})
	return s
}

// EventsType is the content type of event streams.
const EventsType = "text/event-stream"

// comeBack is when a client comes back to a stream that it can resume, unless that says otherwise.
const comeBack = time.Second

// EventStream writes server-sent events. It is not safe for concurrent use.
type EventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	// patience limits each event: http.Server's own limit is for the whole response, which may have no end.
	patience time.Duration
	started  bool
}

// Start sends the header, and an event without a message, from which the client can resume if it has an id.
func (s *EventStream) Start(id string) error {
	if id == "" {
		return s.send("")
	}
	return s.send("id: %s\nretry: %d\ndata:\n\n", id, comeBack.Milliseconds())
}

// Started reports whether anything has been sent.
func (s *EventStream) Started() bool { return s.started }

// Retry tells when to come back.
func (s *EventStream) Retry(after time.Duration) error {
	return s.send("retry: %d\n\n", max(after.Milliseconds(), 0))
}

// Event sends a message, which has no line ends. It cannot be resumed after one without an id.
func (s *EventStream) Event(id string, message []byte) error {
	if id == "" {
		return s.send("data: %s\n\n", message)
	}
	return s.send("id: %s\ndata: %s\n\n", id, message)
}

// Alive sends a comment, by which proxies see that the stream is in use, and we that the connection is.
func (s *EventStream) Alive() error { return s.send(":\n\n") }

// send keeps no buffer: a stream may wait for long after its last event.
func (s *EventStream) send(format string, args ...any) error {
	if !s.started {
		s.started = true
		values := [...]string{EventsType, "no-cache, no-store", "no", "nosniff"} // as in [Reply.JSON]
		h := s.w.Header()
		h["Content-Type"] = values[0:1:1]
		h["Cache-Control"] = values[1:2:2]
		h["X-Accel-Buffering"] = values[2:3:3] // for proxies: pass on each event at once
		h["X-Content-Type-Options"] = values[3:4:4]
		s.w.WriteHeader(http.StatusOK)
	}
	// Writers that know no deadlines, as in tests, do without. It goes with the event: an HTTP/2 stream ends with its deadline even
	// if nothing is written.
	s.rc.SetWriteDeadline(time.Now().Add(s.patience))
	defer s.rc.SetWriteDeadline(time.Time{})
	if format != "" {
		if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
			return err
		}
	}
	return s.rc.Flush()
}

// Streams reports whether the reply may be a stream: the client takes one, and what middleware has put around the
// writer can flush.
func (r Reply) Streams(h http.Header) bool { return CanFlush(r.Writer) && acceptsEvents(h) }

// CanFlush reports whether [http.ResponseController.Flush] is supported.
func CanFlush(w http.ResponseWriter) bool {
	for { // the innermost counts, as others may have a Flush that needs it
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = inner.Unwrap()
	}
	switch w.(type) {
	case http.Flusher, interface{ FlushError() error }:
		return true
	}
	return false
}

// acceptsEvents reports whether the client takes event streams; one that says nothing takes all.
func acceptsEvents(h http.Header) bool {
	accepted := strings.Join(h.Values("Accept"), ",")
	for item := range strings.SplitSeq(accepted, ",") {
		name, _, _ := strings.Cut(item, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case EventsType, "text/*", "*/*":
			return true
		}
	}
	return accepted == ""
}
