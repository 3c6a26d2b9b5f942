package handshake

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// peer is what the handshake fixed for a session (MCP 2025-11-25, basic/lifecycle), and what the client has set since.
type peer struct {
	revision revision.Revision
	sessionid.Terms
	asked dialect.Asked // what the guest has asked the client
	// session is the one over HTTP whose client this is; nil for others.
	session *session
	// level is the least severe log message that the client gets.
	level slog.LevelVar
	// changes are what the client hears without asking.
	changes *dialect.Subscription
	// settings are what the client has set, where no document has that. setting guards them.
	settings settings
	setting  sync.Mutex
}

// agree answers initialize: what both sides agree on, and the result that says so.
func (d *handshake) agree(x *dialect.Exchange) (*peer, json.RawMessage, *wire.Error) {
	var p struct {
		ProtocolVersion *string        `json:"protocolVersion"`
		Capabilities    jsontext.Value `json:"capabilities"`
		ClientInfo      jsontext.Value `json:"clientInfo"`
	}
	if rerr := wire.DecodeParams(x.Message.Params, &p); rerr != nil {
		return nil, nil, rerr
	}
	if p.ProtocolVersion == nil {
		return nil, nil, wire.NewError(wire.CodeInvalidParams, "params.protocolVersion is missing")
	}
	client, pointer, ok := d.newPeer(*p.ProtocolVersion, p.Capabilities)
	if !ok {
		return nil, nil, wire.WrongParam("/capabilities" + pointer)
	}
	name, _ := jsonview.String(jsonview.Get(p.ClientInfo, "name"))
	client.Trusted = client.Apps && d.Questions.Trusts(name)
	offers := d.Offers(client.revision >= revision.March2025)
	offers["tools"] = map[string]any{"listChanged": true} // though the list may be empty
	if d.offersTasks(client) {
		offers["tasks"] = taskCapability(listsTasks(x))
	}
	d.apps.Offers(offers, d.caller(client))
	result, _ := wire.Marshal(struct { // strings and objects of them always encode
		ProtocolVersion string                 `json:"protocolVersion"`
		Capabilities    map[string]any         `json:"capabilities"`
		ServerInfo      dialect.Implementation `json:"serverInfo"`
		Instructions    string                 `json:"instructions,omitzero"`
	}{
		client.revision.String(), offers, d.Info, d.Instructions,
	})
	return client, result, nil
}

// newPeer is a client that declares these capabilities, or none. If they are malformed, pointer says where.
func (d *handshake) newPeer(version string, capabilities jsontext.Value) (p *peer, pointer string, ok bool) {
	var declared dialect.Capabilities
	if k := capabilities.Kind(); k != jsontext.KindInvalid && k != 'n' {
		if declared, pointer, ok = dialect.ReadCapabilities(capabilities); !ok {
			return nil, pointer, false
		}
	}
	p = &peer{revision: revision.Negotiate(version)}
	p.Terms = sessionid.Terms{
		Revision: byte(p.revision), Features: p.revision.Features(declared), Resumable: declared.Resumable,
		Apps: declared.Apps && d.Questions.Apps, Guest: d.DeclaresGuest(declared.Experimental),
	}
	return p, "", true
}

// connection is one whose messages come in order, such as stdio: a session from initialize on.
type connection struct {
	*handshake
	closing context.Context // see [dialect.Exchange]
	notify  func(method string, params json.RawMessage)
	// client is nil before initialize. It is set in the order of the messages.
	client  atomic.Pointer[peer]
	name    string // what guests call the session
	telling sync.WaitGroup
	started bool // telling; used in the order of the messages
}

func (d *handshake) Connect(closing context.Context, notify func(method string, params json.RawMessage)) dialect.Connection {
	return &connection{handshake: d, closing: closing, notify: notify, name: rand.Text()}
}

// Arrive implements [dialect.Connection].
func (c *connection) Arrive(m *wire.Message) dialect.Handler {
	p := c.client.Load()
	method := c.method(m)
	var result json.RawMessage
	var rerr *wire.Error
	switch {
	case m.ID == nil:
		if m.Method == "notifications/initialized" && p != nil && !c.started {
			c.started = true
			c.telling.Go(func() { c.tell(p) })
		}
		return nil
	case m.Method == "initialize" && p != nil:
		rerr = wire.NewError(wire.CodeInvalidRequest, "this connection is initialized already")
	case m.Method == "initialize":
		if p, result, rerr = c.agree(&dialect.Exchange{Message: m}); rerr == nil {
			p.changes = c.Hub.Subscribe(true, true, true, nil)
			c.client.Store(p)
		}
	case p == nil && method.serve != nil && !method.open:
		rerr = wire.NewError(wire.CodeInvalidRequest, "send initialize first")
	default:
		return func(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
			return c.serve(ctx, x, p, nil)
		}
	}
	return func(context.Context, *dialect.Exchange) (json.RawMessage, *wire.Error) { return result, rerr }
}

// Join implements [dialect.Connection].
func (c *connection) Join(x *dialect.Exchange) {
	if p := c.client.Load(); p != nil {
		x.Caller = c.caller(p)
		x.Caller.Session = c.name
	}
}

func (c *connection) tell(p *peer) {
	for {
		select {
		case <-p.changes.Ready:
			if e, ok := p.changes.Next(); ok {
				c.notify(e.Method, e.Params())
			}
		case <-c.closing.Done():
			return
		}
	}
}

func (c *connection) Batches() bool {
	p := c.client.Load()
	return p != nil && p.revision.Batches()
}

func (c *connection) Close() {
	if p := c.client.Load(); p != nil {
		p.changes.Close()
	}
	c.telling.Wait()
}

// visitor is a message of a session as the guest sees it.
func (d *handshake) visitor(x *dialect.Exchange, s *session, m *wire.Message) *dialect.Exchange {
	v := x.For(m)
	v.Caller = d.caller(s.peer)
	return v
}

// visited follows a request of a guest's. The session stays in memory while questions wait that
// it was asked. If the client has gone, it has not read those that were sent with the request.
func (s *session) visited(request context.Context, c *dialect.Caller) {
	if c.Asked == nil {
		return
	}
	if request.Err() != nil {
		c.Asked.Remove(c.Posted...)
	}
	if !c.Asked.Empty() {
		s.linger()
	}
}
