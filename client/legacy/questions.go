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
	id    jsonrpc.ID
	taken chan struct{} // closed when it has its number, or was refused
	once  sync.Once
}

func (q *question) take() { q.once.Do(func() { close(q.taken) }) }

// asked are the methods of questions.
var asked = map[string]bool{"elicitation/create": true, "sampling/createMessage": true, "roots/list": true}

// questionOf returns the question that a message is, or nil.
func questionOf(m jsonrpc.Message) *question {
	if r, is := m.(*jsonrpc.Request); is && r.IsCall() && asked[r.Method] {
		return &question{id: r.ID, taken: make(chan struct{})}
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
	for {
		b.mu.Lock()
		before := b.latest
		if before == nil {
			b.latest = q
		}
		b.mu.Unlock()
		if before == nil {
			return true
		}
		select {
		case <-before.taken:
			b.mu.Lock()
			if b.latest == before {
				b.latest = nil
			}
			b.mu.Unlock()
		case <-b.broken.Done():
			return false
		case <-end:
			return false
		}
	}
}

// taking returns what to call when the request that is handled has its number, if it is a question, and the context
// through which the client does that.
func (b *backlog) taking(ctx context.Context, method string) (context.Context, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.latest == nil || !asked[method] {
		return ctx, func() {}
	}
	return inturn.With(ctx, b.latest.take), b.latest.take
}

// answers notes a message to the server: if it answers the question that has come, the SDK may have refused that.
func (b *backlog) answers(m jsonrpc.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, is := m.(*jsonrpc.Response); is && b.latest != nil && b.latest.id == r.ID {
		b.latest.take()
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

// Connect implements [mcp.Transport].
func (o *orderly) Connect(ctx context.Context) (_ mcp.Connection, err error) {
	o.closed, o.close = context.WithCancel(context.Background())
	o.Connection, err = o.Transport.Connect(ctx)
	return o, err
}

// Read implements [mcp.Connection].
func (o *orderly) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := o.Connection.Read(ctx)
	if q := questionOf(m); err == nil && q != nil && !o.comes(q, o.closed.Done()) {
		return nil, io.EOF
	}
	return m, err
}

// Write implements [mcp.Connection].
func (o *orderly) Write(ctx context.Context, m jsonrpc.Message) error {
	o.answers(m)
	return o.Connection.Write(ctx, m)
}

// Close implements [mcp.Connection].
func (o *orderly) Close() error {
	o.close()
	return o.Connection.Close()
}
