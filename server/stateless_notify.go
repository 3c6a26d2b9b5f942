package server

import (
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Progress beyond this rate is left out: what comes later says more. The first
// messages and the one that says "all done" always go out.
const (
	progressBurst    = 32
	progressInterval = 20 * time.Millisecond
)

// statelessNotifier tells one client what goes on in one request, as far as the
// request asked for it (MCP 2026-07-28, basic/patterns/progress and
// server/utilities/logging). It falls silent when the request is answered.
type statelessNotifier struct {
	send  func([]byte)
	token jsontext.Value // nil: no progress is wanted
	log   bool
	level slog.Level

	mu     sync.Mutex
	closed bool
	done   float64 // of the last progress sent
	sent   int
	last   time.Time
}

// notifier returns the request's notifier, or nil if it asked for nothing.
func (r *statelessRequest) notifier(send func([]byte)) *statelessNotifier {
	if r.meta.ProgressToken == nil && !r.meta.wantsLog {
		return nil
	}
	n := &statelessNotifier{send: send, token: r.meta.ProgressToken, log: r.meta.wantsLog, level: r.meta.level, done: math.Inf(-1)}
	r.notify = n
	return n
}

// Progress implements engine.Notifier.
func (n *statelessNotifier) Progress(p engine.Progress) {
	if n.token == nil || math.IsNaN(p.Done) || math.IsInf(p.Done, 0) {
		return
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), n.token...)
	b = append(b, `,"progress":`...)
	b = strconv.AppendFloat(b, p.Done, 'f', -1, 64)
	if p.Total > 0 && !math.IsInf(p.Total, 0) {
		b = append(b, `,"total":`...)
		b = strconv.AppendFloat(b, p.Total, 'f', -1, 64)
	}
	if p.Message != "" {
		b = append(b, `,"message":`...)
		b = appendString(b, p.Message)
	}
	b = append(b, '}', '}')

	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	soon := n.sent >= progressBurst && now.Sub(n.last) < progressInterval
	complete := p.Total > 0 && p.Done >= p.Total
	if n.closed || p.Done <= n.done || soon && !complete {
		return
	}
	n.done, n.last = p.Done, now
	n.sent++
	n.send(b)
}

// Log implements engine.Notifier.
func (n *statelessNotifier) Log(l engine.Log) {
	if !n.log || l.Level < n.level {
		return
	}
	b, err := appendLog(nil, l)
	if err != nil {
		return // the author's data is not JSON; the turn goes on
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.send(b)
	}
}

// close silences the notifier. When it returns nothing is being sent.
func (n *statelessNotifier) close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}

// appendLog writes a notifications/message.
func appendLog(b []byte, l engine.Log) ([]byte, error) {
	data, err := marshal(l.Data)
	if err != nil {
		return b, err
	}
	b = append(b, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":`...)
	b = appendString(b, engine.LevelName(l.Level))
	if l.Logger != "" {
		b = append(b, `,"logger":`...)
		b = appendString(b, l.Logger)
	}
	b = append(b, `,"data":`...)
	b = append(b, data...)
	return append(b, '}', '}'), nil
}
