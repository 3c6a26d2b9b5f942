package handshake

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// connection is a connection whose messages come in order, such as stdio: it is one
// session from initialize on.
type connection struct {
	*handshake
	notify func(method string, params json.RawMessage)
	// client is nil before initialize. It is set in the order of the messages.
	client  atomic.Pointer[peer]
	telling sync.WaitGroup
	started bool // telling; used in the order of the messages
}

// Connect implements [dialect.Connector].
func (d *handshake) Connect(notify func(method string, params json.RawMessage)) dialect.Connection {
	return &connection{handshake: d, notify: notify}
}

// Arrive implements [dialect.Connection]: what comes after initialize is served by what
// that agreed on.
func (c *connection) Arrive(m *wire.Message) dialect.Handler {
	p := c.client.Load()
	method := methods[m.Method]
	switch {
	case m.Notification():
		if m.Method == "notifications/initialized" && p != nil && !c.started {
			c.started = true
			c.telling.Go(func() { c.tell(p) })
		}
		return nil
	case m.Method == "initialize":
		return answered(c.initialize(m))
	case p == nil && method.serve != nil && !method.open:
		return answered(nil, wire.NewError(wire.CodeInvalidRequest, "send initialize first"))
	}
	return &known{c.handshake, p}
}

// answered is what serves a request whose answer is there already.
func answered(result json.RawMessage, rerr *wire.Error) dialect.Handler {
	return dialect.HandlerFunc(func(context.Context, *dialect.Exchange) (json.RawMessage, *wire.Error) { return result, rerr })
}

func (c *connection) initialize(m *wire.Message) (json.RawMessage, *wire.Error) {
	if c.client.Load() != nil {
		return nil, wire.NewError(wire.CodeInvalidRequest, "this connection is initialized already")
	}
	p, result, rerr := c.open(m.Params)
	if rerr != nil {
		return nil, rerr
	}
	c.client.Store(p)
	return result, nil
}

// tell tells the client of changes.
func (c *connection) tell(p *peer) {
	for {
		select {
		case <-p.changes.Ready:
			if e, ok := p.changes.Next(); ok {
				c.notify(e.Method(), e.Params())
			}
		case <-p.answering.Done():
			return
		}
	}
}

// Batches implements [dialect.Connection].
func (c *connection) Batches() bool {
	p := c.client.Load()
	return p != nil && p.revision.batches()
}

// Close implements [dialect.Connection].
func (c *connection) Close() {
	if p := c.client.Load(); p != nil {
		p.close(dialect.ErrSessionEnded)
	}
	c.telling.Wait()
}
