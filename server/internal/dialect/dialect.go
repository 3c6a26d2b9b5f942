// Package dialect is the seam between transports and protocols: what a [Dialect] must do,
// what it may do besides, and what dialects share.
//
// A transport reads a message and hands it, as an [Exchange], to the first dialect that
// matches. The dialect answers with a result or an error, and does not know how either
// gets to the client. To add one, write a package with a function of the type [New] and
// add it to the list in package server (dialects.go). Package echo, beside this one, is a
// whole dialect that only tests serve.
package dialect

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Dialect is a family of protocol revisions with its own rules on the wire.
type Dialect interface {
	// Name says what it is, for people.
	Name() string
	// Match reports whether a message is the dialect's; the first that matches serves.
	// The header is nil where there is none. The message is empty when there is none
	// yet: when something that cannot be read is to be refused, for a batch, and for
	// HTTP methods besides POST.
	Match(*wire.Message, http.Header) bool
	// Serve answers a request.
	Serve(ctx context.Context, x *Exchange) (json.RawMessage, *wire.Error)
}

// Handler answers requests.
type Handler interface {
	Serve(ctx context.Context, x *Exchange) (json.RawMessage, *wire.Error)
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc func(context.Context, *Exchange) (json.RawMessage, *wire.Error)

// Serve implements [Handler].
func (f HandlerFunc) Serve(ctx context.Context, x *Exchange) (json.RawMessage, *wire.Error) {
	return f(ctx, x)
}

// New makes the dialect of a server. It fails if what the server offers cannot be
// served.
type New = func(*Host) (Dialect, error)

// Sessions is a Dialect that remembers clients between HTTP requests, and may answer
// one request by the connection of another. It answers all of its HTTP exchanges itself,
// whatever their HTTP method: messages of every kind, batches, and none.
type Sessions interface {
	Dialect
	// Reply answers an HTTP exchange. ctx ends when its client has gone.
	Reply(ctx context.Context, x *Exchange, r wire.Reply)
	// Join has a request of another dialect belong to the session that it names, if any:
	// the session is in use, and can cancel the request by its id, until leave is called;
	// that is nil if there is none.
	Join(ctx context.Context, x *Exchange) (joined context.Context, leave func())
}

// Batcher is a Dialect that has several messages in one.
type Batcher interface {
	Dialect
	// Batchable reports whether a message of the dialect's may be part of a batch.
	Batchable(*wire.Message) bool
}

// Connector is a Dialect that remembers something of a connection on which the messages
// of one client come in order, such as a pair of pipes.
type Connector interface {
	Dialect
	// Connect begins a connection. notify sends what belongs to no request.
	Connect(notify func(method string, params json.RawMessage)) Connection
}

// Connection is what a Connector remembers of a connection.
type Connection interface {
	// Arrive sees each of the dialect's requests and notifications before the next
	// message is read. It returns what serves a request.
	Arrive(*wire.Message) Handler
	// Batches reports whether the client may send several messages as one.
	Batches() bool
	// Close ends what is still open, when the connection has ended.
	Close()
}

// Drainer is a Dialect that keeps something open for clients.
type Drainer interface {
	// Drain ends what would hold up the end of the server: what is open without an end,
	// and the wait for clients. Requests under way go on.
	Drain()
	// Close ends the rest, and waits a little for what is undone.
	Close()
}

// Strict is a Dialect that checks all headers by itself. Those of the others are compared
// with their messages by the transport; see [Contradiction].
type Strict interface {
	// Strict does nothing.
	Strict()
}

// WithoutNullIDs is a Dialect whose errors have no id if the request's is not known, rather
// than null.
type WithoutNullIDs interface {
	// WithoutNullIDs does nothing.
	WithoutNullIDs()
}
