package dialect

import (
	"encoding/json"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Progress beyond this rate is left out: what comes later says more. The first
// messages and the one that says "all done" always go out.
const (
	progressBurst    = 32
	progressInterval = 20 * time.Millisecond
)

// unencodable stands for data of a log message that is not JSON, which is its author's
// mistake; the turn goes on.
var unencodable = json.RawMessage(strconv.Quote("this message cannot be shown"))

// Notifier tells a client what goes on in one request, as far as it wants to know (MCP,
// basic/utilities/progress and server/utilities/logging). It is silent after Close.
type Notifier struct {
	// Way is the way to the client.
	Way Way
	// Token is the request's progressToken; nil if the client wants no progress.
	Token jsontext.Value
	// Level is that of the least severe log message that the client wants; nil if it
	// wants none.
	Level *slog.LevelVar
	// Wordless: the client's revision has no messages in progress.
	Wordless bool

	mu     sync.Mutex
	closed bool
	sent   int
	done   float64 // of the last progress sent
	last   time.Time
}

var _ interface {
	engine.Notifier
	engine.Disconnecter
} = (*Notifier)(nil)

// Progress implements [engine.Notifier]. Progress must grow over the whole request,
// which may have several turns: what does not is not passed on.
func (n *Notifier) Progress(p engine.Progress) {
	done, err := json.Marshal(p.Done)
	if n.Token == nil || err != nil { // not a number
		return
	}
	b := append([]byte(`{"progressToken":`), n.Token...)
	b = append(append(b, `,"progress":`...), done...)
	if total, err := json.Marshal(p.Total); err == nil && p.Total > 0 {
		b = append(append(b, `,"total":`...), total...)
	}
	if p.Message != "" && !n.Wordless {
		b = wire.AppendString(append(b, `,"message":`...), p.Message)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	soon := n.sent >= progressBurst && now.Sub(n.last) < progressInterval
	complete := p.Total > 0 && p.Done >= p.Total && !math.IsInf(p.Total, 0)
	if n.closed || n.sent > 0 && p.Done <= n.done || soon && !complete {
		return
	}
	n.done, n.last = p.Done, now
	n.sent++
	n.Way.Notify("notifications/progress", append(b, '}'))
}

// Log implements [engine.Notifier].
func (n *Notifier) Log(l engine.Log) {
	if n.Level == nil || l.Level < n.Level.Level() {
		return
	}
	data, err := json.Marshal(l.Data) // authors know its rules
	if err != nil {
		data = unencodable
	}
	b := wire.AppendString([]byte(`{"level":`), engine.LevelName(l.Level))
	if l.Logger != "" {
		b = wire.AppendString(append(b, `,"logger":`...), l.Logger)
	}
	b = append(append(b, `,"data":`...), data...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.Way.Notify("notifications/message", append(b, '}'))
	}
}

// Disconnect implements [engine.Disconnecter].
func (n *Notifier) Disconnect(retry time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.Way.Hangup(retry)
	}
}

// Close silences the notifier. When it returns nothing is being sent.
func (n *Notifier) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}
