package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// statelessLines is the dialect on one stdio connection: the same rules without
// the headers. All answers, notifications and subscriptions share one channel
// (MCP 2026-07-28, basic/transports/stdio).
type statelessLines struct {
	*stateless
	lines *lineStream

	// stop is closed when the connection ends.
	stop chan struct{}

	mu        sync.Mutex
	closed    bool
	listeners map[string]*lineListener // by the request's id
	running   sync.WaitGroup
}

// lineListener is an open subscription; cancel ends it without a word.
type lineListener struct{ cancel context.CancelFunc }

func newStatelessLines(d *stateless, lines *lineStream) *statelessLines {
	return &statelessLines{stateless: d, lines: lines, stop: make(chan struct{}), listeners: make(map[string]*lineListener)}
}

// answer handles a request and returns the response, or nil for none.
func (d *statelessLines) answer(call *stdioCall) []byte {
	r, no := d.admit(caller{}, &call.Message, nil)
	if no != nil {
		return appendReply(nil, call.ID, nil, no)
	}
	if call.Method == listenMethod {
		if no := d.listen(call, r); no != nil {
			return appendReply(nil, call.ID, nil, no)
		}
		return nil
	}
	n := r.notifier(func(message []byte) { d.lines.notify(call, message) })
	result, no := d.run(call.ctx, r, nil)
	n.close()
	return appendReply(nil, call.ID, result, no)
}

// listen opens a subscription and returns at once: a request that never ends must
// not take the place of one that does.
func (d *statelessLines) listen(call *stdioCall, r *statelessRequest) *wire.Error {
	key := string(call.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	if d.listeners[key] != nil {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "a request with this id is still open")
	}
	l, no := d.openListener(call.ctx, r)
	if no != nil {
		return no
	}
	l.stop = d.stop
	ctx, cancel := context.WithCancel(context.WithoutCancel(call.ctx))
	here := &lineListener{cancel}
	d.listeners[key] = here
	// From here on cancelled finds the listener. Before, the cancellation of the
	// request was that of the call.
	if call.ctx.Err() != nil {
		cancel()
	}
	d.running.Go(func() {
		defer cancel()
		out := &linesOutlet{ctx, d.lines}
		if l.run(ctx, out, neverIdle) {
			out.send(wire.AppendResponse(nil, l.id, d.goodbye(l), nil))
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.listeners[key] == here {
			delete(d.listeners, key)
		}
	})
	return nil
}

// cancelled ends the subscription that a notification names, without a word.
func (d *statelessLines) cancelled(params jsontext.Value) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if wire.DecodeParams(params, &p) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := string(bytes.TrimSpace(p.RequestID))
	if l := d.listeners[key]; l != nil {
		l.cancel()
		delete(d.listeners, key) // the id is free again
	}
}

// neverIdle: a pipe needs no sign of life.
const neverIdle = 1000 * time.Hour

// partingTime bounds the wait for a client that does not read what the server
// says in the end.
const partingTime = time.Second

// close ends the subscriptions, with a proper goodbye.
func (d *statelessLines) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	close(d.stop)
	said := make(chan struct{})
	go func() {
		defer close(said)
		d.running.Wait()
	}()
	select {
	case <-said:
	case <-time.After(partingTime):
	}
}

// linesOutlet is a subscription's way to the client, until it is cancelled.
type linesOutlet struct {
	ctx   context.Context
	lines *lineStream
}

func (o *linesOutlet) send(message []byte) {
	if o.ctx.Err() == nil {
		o.lines.write(message)
	}
}

func (o *linesOutlet) alive() {}
