package server

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// retryAfter is how long a client waits before it comes back.
type retryAfter = time.Duration

// teller passes on what a tool tells while one request is served. It is silent
// after the response (MCP 2025-11-25, basic/utilities/progress).
type teller struct {
	to   exchange
	peer *peer
	// token is the request's progressToken; nil: the client wants no progress.
	token jsontext.Value

	mu   sync.Mutex
	over bool
	told bool
	done float64
}

var _ interface {
	engine.Notifier
	engine.Disconnecter
} = (*teller)(nil)

func newTeller(to exchange, p *peer, params jsontext.Value) (*teller, *jsonrpc2.Error) {
	var meta struct {
		Meta struct {
			ProgressToken jsontext.Value `json:"progressToken"`
		} `json:"_meta"`
	}
	t := &teller{to: to, peer: p}
	if jsonv2.Unmarshal(params, &meta) != nil {
		return t, nil // the method says what is wrong
	}
	if len(meta.Meta.ProgressToken) > maxID {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, longTokenText)
	}
	if validID(meta.Meta.ProgressToken) {
		t.token = meta.Meta.ProgressToken
	}
	return t, nil
}

// Progress implements [engine.Notifier]. Progress must grow over the whole request,
// which may have several turns: what does not is not passed on.
func (t *teller) Progress(p engine.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.token == nil || t.told && p.Done <= t.done {
		return
	}
	done, err := jsonv2.Marshal(p.Done)
	if err != nil {
		return // not a number
	}
	b := append([]byte(`{"progressToken":`), t.token...)
	b = append(append(b, `,"progress":`...), done...)
	if total, err := jsonv2.Marshal(p.Total); err == nil && p.Total != 0 {
		b = append(append(b, `,"total":`...), total...)
	}
	if p.Message != "" && t.peer.revision >= revision2025March {
		b = appendString(append(b, `,"message":`...), p.Message)
	}
	t.told, t.done = true, p.Done
	t.to.notify("notifications/progress", append(b, '}'))
}

// Log implements [engine.Notifier].
func (t *teller) Log(l engine.Log) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || int32(l.Level) < t.peer.level.Load() {
		return
	}
	data, err := json.Marshal(l.Data) // authors know its rules
	if err != nil {
		data = json.RawMessage(strconv.Quote("this message cannot be shown"))
	}
	b := appendString([]byte(`{"level":`), engine.LevelName(l.Level))
	if l.Logger != "" {
		b = appendString(append(b, `,"logger":`...), l.Logger)
	}
	b = append(append(b, `,"data":`...), data...)
	t.to.notify("notifications/message", append(b, '}'))
}

// Disconnect implements [engine.Disconnecter].
func (t *teller) Disconnect(retry time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.to.disconnect(retry)
	}
}

// end makes the teller silent.
func (t *teller) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}
