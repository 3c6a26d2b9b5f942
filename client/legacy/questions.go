package legacy

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/inturn"
)

// question is a request of the server that the client answers.
type question struct {
	id   jsonrpc.ID
	take func() // says that it has its number, or was refused
}

// asked are the methods of questions.
var asked = map[string]bool{"elicitation/create": true, "sampling/createMessage": true, "roots/list": true}

// questionOf returns the question that a message is, or nil.
func questionOf(m jsonrpc.Message) *question {
	if r, is := m.(*jsonrpc.Request); is && r.IsCall() && asked[r.Method] {
		return &question{id: r.ID}
	}
	return nil
}

// decode returns the message in some text, or nil.
func decode(text []byte) jsonrpc.Message {
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil
	}
	return m
}

// comes waits until the SDK may have a question, and reports whether it may: it handles those that it has all at once,
// so it does not get another before the client has numbered the last.
func (b *backlog) comes(q *question, end <-chan struct{}) bool {
	select {
	case b.numbering <- struct{}{}:
		q.take = sync.OnceFunc(func() { <-b.numbering })
		b.latest.Store(q)
		return true
	case <-b.broken.Done():
	case <-end:
	}
	return false
}

// taking returns what to call when the request that is handled has its number, if it is a question, and the context
// through which the client does that.
func (b *backlog) taking(ctx context.Context, method string) (context.Context, func()) {
	q := b.latest.Load()
	if q == nil || !asked[method] {
		return ctx, func() {}
	}
	return inturn.With(ctx, q.take), q.take
}

// answers notes a message to the server: if it answers the question that has come, the SDK may have refused that.
func (b *backlog) answers(m jsonrpc.Message) {
	q := b.latest.Load()
	if r, is := m.(*jsonrpc.Response); is && q != nil && q.id == r.ID {
		q.take()
	}
}

// orderly is a connection to a process.
type orderly struct {
	mcp.Transport
	mcp.Connection
	*backlog
	closed context.Context
	close  context.CancelFunc
}

func (o *orderly) Connect(ctx context.Context) (_ mcp.Connection, err error) {
	o.closed, o.close = context.WithCancel(context.Background())
	o.Connection, err = o.Transport.Connect(ctx)
	return o, err
}

func (o *orderly) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := o.Connection.Read(ctx)
	if q := questionOf(m); err == nil && q != nil && !o.comes(q, o.closed.Done()) {
		return nil, io.EOF
	}
	return m, err
}

func (o *orderly) Write(ctx context.Context, m jsonrpc.Message) error {
	o.answers(m)
	return o.Connection.Write(ctx, m)
}

func (o *orderly) Close() error {
	o.close()
	return o.Connection.Close()
}
