// Package handshake is the dialect of MCP 2024-11-05 to 2025-11-25: a client introduces
// itself once, and the server asks it by requests of its own. A suspended saga becomes such
// requests, and their answers resume it through the same sealed token as everywhere; only
// that this token does not leave the server.
//
// Over HTTP this is the Streamable HTTP transport (http.go, with sessions and streams that
// outlive a connection), on stdio the connection is the session (connection.go). The
// transport of 2024-11-05 with two HTTP endpoints is not served.
package handshake

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

type handshake struct {
	*dialect.Host
	sessions sessionTable
	// answering ends when clients that came by transports of somebody else's are waited
	// for no more.
	answering context.Context
	silence   context.CancelCauseFunc
}

// New is of the type [dialect.New].
func New(h *dialect.Host) (dialect.Dialect, error) {
	d := &handshake{Host: h}
	d.answering, d.silence = context.WithCancelCause(context.Background())
	return d, nil
}

var _ interface {
	dialect.Sessions
	dialect.Connector
	dialect.Drainer
} = (*handshake)(nil)

// Name implements [dialect.Dialect].
func (*handshake) Name() string {
	return "MCP " + versions[len(versions)-1] + " to " + versions[0]
}

// Match implements [dialect.Dialect]. What is no other dialect's is of this one, which is
// the oldest.
func (*handshake) Match(*wire.Message, http.Header) bool { return true }

// Serve implements [dialect.Dialect], for clients without a session of ours.
func (d *handshake) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	if x.Client == nil {
		return d.serve(ctx, x, nil)
	}
	if !methods[x.Message.Method].foreign {
		return nil, wire.NotFound()
	}
	p, rerr := d.introduced(x.Client)
	if rerr != nil {
		return nil, rerr
	}
	defer p.silence(nil)
	return d.serve(ctx, x, p)
}
