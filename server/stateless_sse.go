package server

import (
	"net/http"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/lazyctx"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// writeTimeout is how long a client may take to accept a message of a stream. It
// bounds what a tool that reports progress may be held up.
const writeTimeout = 10 * time.Second

// reply is the response to one POST. It is a JSON object unless something is to
// be said before; then it becomes a stream of events that ends with the response
// (MCP 2026-07-28, basic/transports/streamable-http). Until then nothing is
// written, as some errors must have a status of their own.
type reply struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	ctx    *lazyctx.Context // ends when the client has gone
	events bool             // the client takes event streams

	mu        sync.Mutex
	streaming bool
	broken    bool
}

func newReply(w http.ResponseWriter, r *http.Request) *reply {
	return &reply{
		w: w, rc: http.NewResponseController(w), events: wire.AcceptsEvents(r.Header),
		ctx: lazyctx.New(r.Context(), time.Time{}),
	}
}

// send sends a message before the response. A client that does not take it is
// treated as gone.
func (p *reply) send(message []byte) {
	if !p.events {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.event(message)
}

// alive sends a comment, which shows proxies that the stream is in use.
func (p *reply) alive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write([]byte(":\n\n"))
}

// respond sends the response, which ends the reply. It reports whether nobody looks
// at message any more; see writeJSON.
func (p *reply) respond(status int, message []byte) (done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ctx.Err() != nil:
		// Nothing is sent to a client that has cancelled by going away.
	case p.streaming:
		p.event(message)
	default:
		if status == http.StatusServiceUnavailable {
			p.w.Header().Set("Retry-After", "1")
		}
		p.limit()
		return writeJSON(p.w, status, message)
	}
	return true
}

// event writes a message as one event. Messages are compact JSON, so they hold
// no line ends.
func (p *reply) event(message []byte) {
	b := make([]byte, 0, len(message)+8)
	b = append(b, "data: "...)
	b = append(b, message...)
	p.write(append(b, '\n', '\n'))
}

func (p *reply) write(b []byte) {
	if p.broken || p.ctx.Err() != nil {
		return
	}
	if !p.streaming {
		p.streaming = true
		h := p.w.Header()
		h.Set("Content-Type", wire.EventsType)
		h.Set("Cache-Control", "no-cache, no-store")
		h.Set("X-Accel-Buffering", "no") // for proxies: pass on each event at once
		h.Set("X-Content-Type-Options", "nosniff")
		p.w.WriteHeader(http.StatusOK)
	}
	p.limit()
	_, err := p.w.Write(b)
	if err == nil {
		err = p.rc.Flush()
	}
	if err != nil {
		p.broken = true
		p.ctx.Cancel()
	}
}

// limit gives the next write its own time: http.Server's WriteTimeout is for the
// whole response, which may be a stream without an end. Writers that know no
// deadlines, as in tests, do without.
func (p *reply) limit() { p.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) }
