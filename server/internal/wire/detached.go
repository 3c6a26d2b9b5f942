package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"
)

// Detached is the connection of a stream of events that net/http does not look after any more:
// so it takes a fraction of the memory, and no goroutine. It is an [http.ResponseWriter] by
// which the stream goes on; End ends the response, and has net/http serve the connection again.
// It is not safe for concurrent use.
type Detached struct {
	conn   net.Conn
	unread []byte       // what has come of the next request
	server *http.Server // serves the connection afterwards; nil if it ends with the response
	broken bool
}

// detachTime is how long the client may take to accept the end of a response.
const detachTime = 5 * time.Second

// Detach takes the connection of a stream that has begun from net/http, or reports that this
// cannot be: it takes HTTP/1.1, and a writer that is net/http's own. Others may change what is
// written, as those that compress it do.
func (s *EventStream) Detach(r Reply) (d *Detached, ok bool) {
	if d, ok = r.Writer.(*Detached); ok {
		return d, true
	}
	q := r.Request
	if q == nil || q.ProtoMajor != 1 || q.ProtoMinor < 1 || !s.started || !isNetHTTP(r.Writer) {
		return nil, false
	}
	conn, buffered, err := s.rc.Hijack()
	if err != nil {
		return nil, false
	}
	d = &Detached{conn: conn}
	if n := buffered.Reader.Buffered(); n > 0 {
		d.unread = make([]byte, n)
		_, err = io.ReadFull(buffered.Reader, d.unread)
	}
	if hs, ok := q.Context().Value(http.ServerContextKey).(*http.Server); ok && !q.Close {
		d.server = hs
	}
	d.broken = err != nil || conn.SetDeadline(time.Time{}) != nil
	return d, true
}

func isNetHTTP(w http.ResponseWriter) bool {
	t := reflect.TypeOf(w)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "net/http"
}

// Header implements [http.ResponseWriter]. The header has been sent.
func (*Detached) Header() http.Header { return make(http.Header) }

// WriteHeader implements [http.ResponseWriter]. The header has been sent.
func (*Detached) WriteHeader(int) {}

// Write writes a chunk of the response (RFC 9112, section 7.1).
func (d *Detached) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := d.send(append(append(fmt.Appendf(nil, "%x\r\n", len(b)), b...), '\r', '\n')); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (d *Detached) send(b []byte) error {
	if d.broken {
		return net.ErrClosed
	}
	if _, err := d.conn.Write(b); err != nil {
		d.broken = true
		return err
	}
	return nil
}

// FlushError is for [http.ResponseController].
func (*Detached) FlushError() error { return nil }

// SetReadDeadline is for [http.ResponseController]. Nothing is read.
func (*Detached) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for [http.ResponseController].
func (d *Detached) SetWriteDeadline(t time.Time) error { return d.conn.SetWriteDeadline(t) }

// Abort closes the connection.
func (d *Detached) Abort() {
	d.broken = true
	_ = d.conn.Close()
}

// End ends the response. Unless the server stops, net/http serves the connection again.
func (d *Detached) End(stops bool) {
	_ = d.conn.SetWriteDeadline(time.Now().Add(detachTime))
	if d.send([]byte("0\r\n\r\n")) != nil || d.server == nil || stops || d.conn.SetWriteDeadline(time.Time{}) != nil {
		d.Abort()
		return
	}
	again := &again{conn: d.conn}
	if len(d.unread) > 0 {
		again.conn = &unreadConn{d.conn, d.unread}
	}
	// It returns as soon as it has begun to serve the connection, or refuses to, as it stops.
	if _ = d.server.Serve(again); !again.taken.Load() {
		d.Abort()
	}
}

// Resume begins the stream anew on its connection.
func (d *Detached) Resume(patience time.Duration) *EventStream {
	return &EventStream{w: d, rc: http.NewResponseController(d), patience: patience, started: true}
}

// again is a listener to which a connection comes that was there before.
type again struct {
	conn  net.Conn
	taken atomic.Bool
}

func (a *again) Accept() (net.Conn, error) {
	if a.taken.Swap(true) {
		return nil, errOne
	}
	return a.conn, nil
}

var errOne = errors.New("only one connection comes")

func (*again) Close() error     { return nil }
func (a *again) Addr() net.Addr { return a.conn.LocalAddr() }

// unreadConn is a connection of which something was read already.
type unreadConn struct {
	net.Conn
	unread []byte
}

func (c *unreadConn) Read(b []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}
