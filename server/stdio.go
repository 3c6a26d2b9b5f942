package server

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/sourcegraph/jsonrpc2"
)

// maxInFlight bounds the requests that one stdio connection works on; reading
// goes on when one is answered.
const maxInFlight = 64

// ServeStdio serves one client over a pair of streams, one JSON message per
// line (MCP, basic/transports/stdio), until in ends or ctx does. A line that is
// not a message is answered with an error and skipped. After the end of in,
// requests under way are answered before ServeStdio returns.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := newLineStream(ctx, in, out, int(s.opts.MaxBody))
	quiet := slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	conn := jsonrpc2.NewConn(ctx, lines, jsonrpc2.AsyncHandler(stdioHandler{s, lines}), jsonrpc2.SetLogger(quietLogger{quiet}))
	<-conn.DisconnectNotify()
	return lines.err()
}

// quietLogger keeps the library's remarks off stderr unless debugging.
type quietLogger struct{ *log.Logger }

// stdioHandler answers the requests that a lineStream numbered.
type stdioHandler struct {
	server *Server
	lines  *lineStream
}

// Handle implements jsonrpc2.Handler.
func (h stdioHandler) Handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) {
	if r.Notif {
		return
	}
	call := h.lines.take(r.ID.Num)
	if call == nil {
		return
	}
	response := h.server.answer(call.ctx, caller{}, &call.message)
	h.lines.finish(call, response)
}
