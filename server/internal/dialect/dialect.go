// Package dialect is the seam between transports and protocols: what a [Dialect] must do,
// what it may do besides, and what dialects share.
//
// A transport reads a message and hands it, as an [Exchange], to the first dialect that
// matches. The dialect answers with a result or an error, and does not know how either
// gets to the client. To add one, write a package with a function of the type [New] and
// add it to the list in package server (server.go). Its echo_test.go has a whole dialect
// that only tests serve.
package dialect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/bounds"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
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

// Handler answers a request.
type Handler = func(context.Context, *Exchange) (json.RawMessage, *wire.Error)

// New makes the dialect of a server; nil if there is nothing that it could serve there. It
// fails if what the server offers cannot be served.
type New = func(*Host) (Dialect, error)

// Sessions is a Dialect that remembers clients from one message to the next, over HTTP by a
// session, on a pair of pipes by the connection. It answers all of its HTTP exchanges
// itself, whatever their HTTP method: messages of every kind, batches, and none.
type Sessions interface {
	Dialect
	// Reply answers an HTTP exchange. ctx ends when its client has gone.
	Reply(ctx context.Context, x *Exchange, r wire.Reply)
	// Join has a request of another dialect belong to the session that its header names,
	// if there is such a one: the session is in use, and can cancel the request by its id,
	// until leave is called.
	// The exchange learns who the client is.
	Join(ctx context.Context, x *Exchange) (joined context.Context, leave func())
	// Connect begins a connection on which the messages of one client come in order.
	// notify sends what belongs to no request. closing is [Exchange].Closing of all of them.
	Connect(closing context.Context, notify func(method string, params json.RawMessage)) Connection
	// Batchable reports whether a message may be one of several in a batch.
	Batchable(*wire.Message) bool
	// Drain closes what is open without an end. [Host.Draining] has ended before.
	Drain()
	// Close ends all sessions, and waits until ctx ends for what is undone.
	Close(ctx context.Context)
}

// Connection is what Sessions remember of a connection.
type Connection interface {
	// Arrive sees each of the dialect's requests and notifications before the next
	// message is read. It returns what serves a request.
	Arrive(*wire.Message) Handler
	// Join tells a message of another dialect who the client is, if that is known.
	Join(*Exchange)
	// Batches reports whether the client may send several messages as one.
	Batches() bool
	// Close ends what is still open, when the connection has ended.
	Close()
}

// Strict is a Dialect with the rules of MCP from 2026-07-28 on: it checks all headers by
// itself, where those of others are compared with their messages by the transport (see
// [Contradiction]), and its errors have no id, rather than null, if the request's is not
// known.
type Strict interface {
	// Strict does nothing.
	Strict()
}

// Exchange is a message of a client's and the way back to it.
type Exchange struct {
	// Message is the message.
	Message *wire.Message
	// Header is that of the HTTP request, or nil.
	Header http.Header
	// Principal is who sent it, in a form in which no two look the same; empty is
	// an anonymous caller.
	Principal string
	// Remote is the address that it came from, or empty.
	Remote string
	// Account is on whose account limits count: the principal's, or that of an anonymous caller's key, so that one caller cannot
	// take what is there for all. It is empty for those without a key, who are not distinguished and share what is there.
	Account string
	// Way is the way back to the client while the message is answered; nil if there is
	// none but the answer.
	Way Way
	// Closing ends when what waits is not waited for any more, for an answer, an event or a time: because of
	// [ErrSessionEnded] when the client says no more, or as [Host.Draining] does. Dispatch has it be that unless it is set.
	Closing context.Context

	// Dialect is what serves the message.
	Dialect Dialect
	// Notifier sends progress and log messages; nil if the client wants none.
	Notifier *Notifier
	// Trace is the trace context that the message came with, as far as hooks need it.
	Trace turns.Trace

	// HTTPMethod is that of the HTTP request, or empty.
	HTTPMethod string
	// Batch are the messages that came as one, if they did. Message is empty then.
	Batch *Batch

	// Client is set if the client has introduced itself to a transport not of ours, by
	// which the message came. That transport sees to headers, lists and sessions.
	Client *Introduction
	// Caller is what the dialect whose rules the message has followed knows of the client;
	// nil if it knows nothing.
	Caller *Caller

	// Large is the place of a large message; nil for others.
	Large *bounds.Place

	place bounds.Place
}

// For is the exchange of a message that came together with others, without a way back.
func (x *Exchange) For(m *wire.Message) *Exchange {
	return &Exchange{Message: m, Header: x.Header, Principal: x.Principal, Account: x.Account, Remote: x.Remote, Dialect: x.Dialect}
}

// Batch are messages that came as one, or why that is none.
type Batch struct {
	Messages []Batched
	Error    *wire.Error
}

// Batched is one message of a batch, or why it is none.
type Batched struct {
	Message wire.Message
	Error   *wire.Error
}

// Introduction is what a client has said of itself in the handshake of a transport not of ours.
type Introduction struct {
	// Version is the revision that it speaks.
	Version string
	// Capabilities is its ClientCapabilities object, or nil.
	Capabilities json.RawMessage
}

// Way is a way to a client while one of its messages is answered. It is safe for
// concurrent use.
type Way interface {
	// Notify sends a notification that belongs to the message, before the answer.
	Notify(method string, params json.RawMessage)
	// Call sends a request of the server's own and waits for what the client says to it:
	// an error of the client's is an answer. It fails with [ErrNoBackChannel] where
	// nothing can be asked, with [context.Cause] when ctx ends, having cancelled the
	// question, and with an error that is [turns.ErrGone] when
	// the client is gone. It calls [inturn.Take] once the request is on its way: the next may be sent.
	Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error)
	// Hangup gives the connection up, for the client to come back for the rest after a
	// while, where it can.
	Hangup(retry time.Duration)
	// KeepOpen says that the answer may be a long time coming, with notifications before
	// it; it fails where that cannot be.
	KeepOpen() *wire.Error
}

// ErrNoBackChannel says that the client cannot be asked on this way.
var ErrNoBackChannel = errors.New("the client cannot be asked by a request here")

// Why a client is not waited for any more.
var (
	ErrSessionEnded = error(gone("the session ended before the client had answered"))
	ErrCancelled    = error(gone("the client cancelled the request"))
	ErrStopping     = error(gone("the server stops; call again"))
	// ErrUnknown is for who would call again, though what the call did may stay.
	ErrUnknown = error(gone("it is not known yet what becomes of the call: find out what it has done before you call again"))
)

// gone is an error about the client, which is no fault of a turn.
type gone string

func (e gone) Error() string { return string(e) }
func (e gone) Is(target error) bool {
	return target == turns.ErrGone || target == engine.ErrUnwanted && (e == ErrCancelled || e == ErrSessionEnded)
}

// Turn begins what the runner of turns is given.
func (x *Exchange) Turn(p turns.Policy) turns.Request {
	q := turns.Request{
		Policy: p, Sender: x, Method: x.Message.Method, Dialect: x.Dialect.Name(), Principal: x.Principal, Trace: x.Trace, Closing: x.Closing,
	}
	if x.Notifier != nil {
		q.Notifier = x.Notifier
	}
	return q
}

// anonymousAccounts is how many accounts there are for the sessions of those who are not known: so
// many bound what all of them may have together.
const anonymousAccounts = 64

// LedgerAccount is on whose account it is what a client over HTTP begins that is not known, so that
// one does not take the room of all: that of its key, or one for its session and a few others, which it
// has not chosen. It is empty for all others.
func (x *Exchange) LedgerAccount(session string) string {
	switch {
	case x.Principal != "" || x.Header == nil:
		return ""
	case x.Account != "":
		return x.Account
	case session != "":
		return "sessions " + strconv.Itoa(int(session[0])%anonymousAccounts)
	}
	return ""
}

// Shares reports whether what LedgerAccount returns is the account of several callers, who look
// alike.
func (x *Exchange) Shares() bool {
	return x.Principal == "" && x.Header != nil && x.Account == ""
}

// Host is what a server offers, for its dialects to serve.
type Host struct {
	// Info describes the server, Instructions tell models how to use its tools.
	Info         Implementation
	Instructions string

	Tools *engine.Registry
	Turns *turns.Runner
	// Tasks are the server's; nil without a ledger. With CallsOnly no tool may be a task: calls are
	// driven by Tasks, and clients see no tasks. See [Host.OffersTasks].
	Tasks tasks.Viewer
	// Core has the documents of sessions; nil without a ledger.
	Core      *durable.Core
	CallsOnly bool
	Catalogue *Catalogue
	// Guest is the dialect that is served by the rules of others too, or nil.
	Guest Guest
	// Questions says how users are asked whose clients cannot be.
	Questions Questions
	// Hub tells of what has changed.
	Hub *Hub
	Log *slog.Logger
	// Draining ends, because of [ErrStopping], when the server is about to stop: clients are
	// waited for no more, and what is open without an end says goodbye.
	Draining context.Context
	// Revisions are those of all dialects.
	Revisions []string
	Limits    Limits
	// Gate says which requests are taken up; nil takes up all.
	Gate *bounds.Gate
	// Large is the gate of large messages, see [Host.ReadBody].
	Large *bounds.Gate
	// TakesKeys: the server has a ledger, by which it knows a first call again.
	TakesKeys bool

	// Around, if it is not nil, is called around every request; it calls Admit and next, or not.
	Around func(ctx context.Context, x *Exchange, next Handler) (json.RawMessage, *wire.Error)
}

// Limits bound what clients may take.
type Limits struct {
	// MaxBody is the largest message, in bytes.
	MaxBody int64
	// See the options of package server.
	SessionTTL, SessionIdle              time.Duration
	MaxSessions, MaxSessionsPerPrincipal int
	MaxStreams, MaxStreamsPerPrincipal   int
}

// Implementation is MCP's Implementation, as far as this server has it.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
}

// Dispatch has a request served by to, or by x.Dialect if that is nil. Every request passes
// here, whatever it came by.
func (h *Host) Dispatch(ctx context.Context, x *Exchange, to Handler) (result json.RawMessage, rerr *wire.Error) {
	defer func() {
		x.place.Leave()
		if v := recover(); v != nil { // a fault of ours must not end the process for all others
			h.Log.ErrorContext(ctx, "request failed", "method", x.Message.Method, "error", v, "stack", string(debug.Stack()))
			result, rerr = nil, Fault()
		}
	}()
	x.Closing = cmp.Or(x.Closing, h.Draining)
	if h.Around != nil {
		if to == nil {
			to = x.Dialect.Serve
		}
		return h.Around(ctx, x, to)
	}
	if rerr = h.Admit(ctx, x); rerr != nil {
		return nil, rerr
	}
	if to == nil { // as for most, without a function made of a method
		return x.Dialect.Serve(ctx, x)
	}
	return to(ctx, x)
}

// namingMembers are the members of params that the header Mcp-Name repeats, by
// method.
var namingMembers = map[string]string{
	"tools/call": "name", "tools/callSaga": "name", "prompts/get": "name", "resources/read": "uri",
}

// Contradiction refuses a message of a dialect without the headers Mcp-Method and
// Mcp-Name that has them all the same, and with other values than its body. A
// gateway may have let it pass for what they say. What they say of a token is
// compared when that is open: see [turns.Request].
func Contradiction(h http.Header, m *wire.Message) *wire.Error {
	if m.Reply != nil || len(h[wire.MethodHeader])+len(h[wire.NameHeader]) == 0 { // as almost all are
		return nil
	}
	method, present, problem := wire.HeaderValue(h, wire.MethodHeader)
	if present && problem == "" && method != m.Method {
		problem = "is not what the body says"
	}
	if problem != "" {
		return wire.Mismatch(wire.MethodHeader, problem)
	}
	name, present, problem := wire.DecodedHeader(h, wire.NameHeader)
	if member := namingMembers[m.Method]; present && problem == "" && member != "" {
		if said, ok := jsonview.String(jsonview.Get(m.Params, member)); !ok || said != name {
			problem = "is not what the body says"
		}
	}
	return wire.Mismatch(wire.NameHeader, problem)
}

// HeadersOfBatch refuses headers about one message for a batch.
func (h *Host) HeadersOfBatch(header http.Header) *wire.Error {
	for _, name := range []string{wire.MethodHeader, wire.NameHeader} {
		if len(header.Values(name)) > 0 {
			return wire.Mismatch(name, "is of one message, and this is a batch")
		}
	}
	if h.TakesKeys && len(header[KeyHeader]) > 0 {
		return badKey("the header " + KeyHeader + " is of one call, and this is a batch: give each its key in params._meta")
	}
	return nil
}

// Limit bounds how many responses are open at once that may take long, in all and for each owner
// that is known: each holds a connection or a part of one.
type Limit struct {
	What            string // they are, in plural
	Most, MostOwned int

	mu    sync.Mutex
	open  int
	owned map[string]int
}

// Enter counts one in, unless there are too many. leave must be called when it has ended.
func (l *Limit) Enter(owner string) (leave func(), rerr *wire.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case owner != "" && l.owned[owner] >= l.MostOwned:
		return nil, bounded(l.What)("this caller has too many " + l.What + " open; end some")
	case l.open >= l.Most:
		rerr := wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, "too many "+l.What+" are open; try again later")
		rerr.RetryAfter, rerr.Bound = time.Second, l.What
		return nil, rerr
	}
	if l.owned == nil {
		l.owned = make(map[string]int)
	}
	l.open++
	l.owned[owner]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if l.owned[owner]--; l.owned[owner] == 0 {
			delete(l.owned, owner)
		}
	}, nil
}
