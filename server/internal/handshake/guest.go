package handshake

import (
	"context"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What the guest learns of a session's client; see [dialect.Guest].

// caller is what is known of a client. session is the name of its session, as the client
// itself does not know it.
func (d *handshake) caller(p *peer, session string) *dialect.Caller {
	if d.Guest == nil || p == nil {
		return nil
	}
	return &dialect.Caller{
		Features: p.features, Declared: p.guest, Session: session, Asked: &p.asked,
		Tasks: p.revision.Tasks(),
		Question: func(s steps.Step) (string, json.RawMessage, error) {
			return stepRequest(p.revision, s, new(links))
		},
		Result: func(r *content.Result) ([]byte, error) { return wire.Marshal(p.revision.Result(r)) },
	}
}

// callerOf is caller for a session over HTTP.
func (d *handshake) callerOf(s *session) *dialect.Caller {
	return d.caller(s.peer, s.agreed.session())
}

// visitor is a message of a session as the guest sees it.
func (d *handshake) visitor(x *dialect.Exchange, s *session, m *wire.Message) *dialect.Exchange {
	return &dialect.Exchange{
		Message: m, Header: x.Header, Principal: x.Principal, Owner: x.Owner, Dialect: d, HTTPMethod: x.HTTPMethod, Caller: d.callerOf(s),
	}
}

// visited follows a request of a guest's. The session stays in memory while questions wait that
// it was asked. If the client has gone, it has not read those that were sent with the request.
func (s *session) visited(request context.Context, c *dialect.Caller) {
	if c == nil {
		return
	}
	if request.Err() != nil {
		c.Asked.Remove(c.Posted...)
	}
	if !c.Asked.Empty() {
		s.linger()
	}
}
