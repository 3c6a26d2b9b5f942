package server

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/sourcegraph/jsonrpc2"
)

// maxInFlight bounds the requests that one stdio connection works on; reading
// goes on when one is answered.
const maxInFlight = 64

// unreadAfter is how often it is looked whether anybody still reads a connection's
// output: a server that has nothing to write would not notice.
const unreadAfter = time.Second

// ServeStdio serves one client over a pair of streams, one JSON message per
// line (MCP, basic/transports/stdio), until in ends or ctx does, or out cannot be
// written to any more, which is the error that is returned; on Unix also if there is
// nothing to write, and out is a pipe or socket that nobody reads. A line that is
// not a message is answered with an error and skipped. After the end of in,
// requests under way are answered before ServeStdio returns; after the end of ctx or
// of out it waits a few seconds for what they undo.
//
// A process that writes to a standard output which nobody reads any more is ended by
// the signal SIGPIPE, in the middle of what it undoes, unless its main function has
// called signal.Ignore(syscall.SIGPIPE).
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := newLineStream(ctx, in, out, int(s.opts.MaxBody))
	lines.gone = cancel
	c := &stdioConn{
		server:    s,
		lines:     lines,
		stateless: newStatelessLines(&s.stateless, lines),
		handshake: &handshakeLines{handshake: &s.handshake, lines: lines},
	}
	lines.conn = c
	quiet := slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	started := make(chan struct{})
	conn := jsonrpc2.NewConn(ctx, gated{lines, started}, jsonrpc2.AsyncHandler(c), jsonrpc2.SetLogger(quiet))
	c.handshake.conn = conn
	close(started)
	defer watchUnread(out, unreadAfter, lines.unread)()
	<-conn.DisconnectNotify()
	c.stateless.close()
	c.handshake.close()
	lines.settle(closeGrace)
	return lines.err()
}

// gated holds back reading until the connection is set up.
type gated struct {
	*lineStream
	started chan struct{}
}

// ReadObject implements jsonrpc2.ObjectStream.
func (g gated) ReadObject(v any) error {
	<-g.started
	return g.lineStream.ReadObject(v)
}

// stdioConn joins the dialects on one connection. A client may mix them: each
// request says by itself whose rules it follows.
type stdioConn struct {
	server    *Server
	lines     *lineStream
	stateless *statelessLines
	handshake *handshakeLines
}

// arrived sees every request in the order of the lines.
func (c *stdioConn) arrived(call *stdioCall) {
	if call.era = eraOf(&call.Message, nil); call.era == eraHandshake {
		c.handshake.arrived(call)
	}
}

// notified handles a notification, in the order of the lines.
func (c *stdioConn) notified(m *wire.Message) {
	if m.Method == "notifications/cancelled" {
		c.lines.cancelled(m.Params)
		c.stateless.cancelled(m.Params)
	}
	if eraOf(m, nil) == eraHandshake {
		c.handshake.notified(m)
	}
}

// Handle implements jsonrpc2.Handler: it answers a request that the lineStream
// numbered.
func (c *stdioConn) Handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) {
	call := c.lines.take(r.ID.Num)
	if call == nil {
		return
	}
	var response []byte
	switch call.era {
	case eraStateless:
		response = c.stateless.answer(call)
	case eraSaga:
		response = c.server.answer(call.ctx, caller{}, &call.Message)
	default:
		response = c.handshake.answer(call)
	}
	c.lines.finish(call, response)
}
