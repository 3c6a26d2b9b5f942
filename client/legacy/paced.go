package legacy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/client"
)

const (
	// mostOwed is how many answers to a server may be on their way to it at once.
	mostOwed = 1000
	// mostBehind is how many messages of streams may wait to be handled. The SDK keeps each with some 50 KiB, as many as come.
	mostBehind = 100
	// pause is how long a stream waits for a message to be handled before it reads another one all the same: a handler
	// may take as long as its user, and what ends its call comes behind.
	pause = 100 * time.Millisecond
)

// backlog is what streams of events have brought and what is not done about it yet.
type backlog struct {
	behind    chan struct{} // has an element for each message that waits to be handled
	owed      atomic.Int64
	numbering chan struct{} // has an element while the latest question waits for its number
	latest    atomic.Pointer[question]

	broken context.Context // ends when nothing more is read or sent; its cause says why
	fail   context.CancelCauseFunc
}

func newBacklog() *backlog {
	b := &backlog{behind: make(chan struct{}, mostBehind), numbering: make(chan struct{}, 1)}
	b.broken, b.fail = context.WithCancelCause(context.Background())
	return b
}

// owes adds to what is owed.
func (b *backlog) owes(n int64) {
	if b.owed.Add(n) > mostOwed {
		b.fail(tooMuch("messages while it waits for no answers", mostOwed))
	}
}

// came notes that a message has come, which waits while many are behind. It passes all the same if none of them is handled
// for a while.
func (b *backlog) came() {
	select {
	case b.behind <- struct{}{}:
	case <-b.broken.Done():
	case <-time.After(pause):
	}
}

// handled notes that a message was handled.
func (b *backlog) handled() {
	select {
	case <-b.behind:
	default:
	}
}

func tooMuch(what string, limit int64) error {
	return &client.ProtocolError{Reason: "the server sends too much", Err: &client.LimitError{What: what, Limit: limit}}
}

// named is what requests and notifications have, and responses hardly.
var named = []byte(`"method"`)

// paced is the body of a response. A stream of events is read no faster than its messages are handled.
type paced struct {
	io.ReadCloser
	*backlog
	events *bufio.Reader // nil for what is no stream
	limit  int64         // of an event, in bytes
	event  []byte        // what is left of the last one
	failed error         // comes behind it
	end    <-chan struct{}
	closed func()
}

func (p *paced) Close() error {
	defer p.closed()
	return p.ReadCloser.Close()
}

func (p *paced) Read(b []byte) (n int, err error) {
	if p.events == nil {
		n, err = p.ReadCloser.Read(b)
	} else {
		for len(p.event) == 0 && p.failed == nil {
			p.failed = p.next()
		}
		n = copy(b, p.event)
		if p.event = p.event[n:]; len(p.event) == 0 {
			err = p.failed
		}
	}
	if long, is := errors.AsType[*http.MaxBytesError](err); is {
		p.fail(tooMuch("bytes in an answer", long.Limit))
	}
	if p.broken.Err() != nil {
		return 0, context.Cause(p.broken)
	}
	return n, err
}

// next reads an event, and waits until the SDK may have it. It takes an event for whole that ends with its stream.
func (p *paced) next() error {
	var event []byte
	var err error
	for line, blank := 0, false; !blank && err == nil; { // line is where the last begins
		var part []byte
		part, err = p.events.ReadSlice('\n')
		switch event = append(event, part...); {
		case int64(len(event)) > p.limit:
			err = tooMuch("bytes in an event", p.limit)
			p.fail(err)
		case err == bufio.ErrBufferFull:
			err = nil
		case err == nil:
			blank = len(bytes.TrimLeft(event[line:], "\r")) == 1
			line = len(event)
		}
	}
	if err == nil || err == io.EOF {
		if q := p.question(event); q != nil && !p.comes(q, p.end) {
			return io.ErrUnexpectedEOF
		}
	}
	p.event = event
	return err
}

// question notes what an event brings, and returns it if it is a question.
func (p *paced) question(event []byte) *question {
	if !bytes.Contains(event, named) { // it is a response, which no handler gets
		return nil
	}
	p.came()
	var data []byte
	for line := range bytes.Lines(event) {
		if part, is := bytes.CutPrefix(line, []byte("data:")); is {
			data = append(data, part...)
		}
		if kind, is := bytes.CutPrefix(line, []byte("event:")); is && string(bytes.TrimSpace(kind)) != "message" { // the SDK drops it
			return nil
		}
	}
	return questionOf(decode(data))
}
