package legacy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
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
	mu           sync.Mutex
	behind, owed int
	done         chan struct{} // has an element when a message was handled
	latest       *question     // that has come

	broken context.Context // ends when nothing more is read or sent; its cause says why
	fail   context.CancelCauseFunc
}

func newBacklog() *backlog {
	b := &backlog{done: make(chan struct{}, 1)}
	b.broken, b.fail = context.WithCancelCause(context.Background())
	return b
}

// owes adds to what is owed.
func (b *backlog) owes(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owed += n; b.owed > mostOwed {
		b.fail(tooMuch("messages while it waits for no answers", mostOwed))
	}
}

// came notes that so many messages have come, or were handled.
func (b *backlog) came(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.behind = max(b.behind+n, 0)
	if n < 0 {
		select {
		case b.done <- struct{}{}:
		default:
		}
	}
}

// wait waits until few messages are behind, and lets one more pass if none of them is handled for a while.
func (b *backlog) wait() {
	for {
		b.mu.Lock()
		many := b.behind > mostBehind
		b.mu.Unlock()
		if !many {
			return
		}
		select {
		case <-b.done:
		case <-b.broken.Done():
			return
		case <-time.After(pause):
			b.came(-1)
			return
		}
	}
}

func tooMuch(what string, limit int64) error {
	return &client.ProtocolError{Reason: "the server sends too much", Err: &client.LimitError{What: what, Limit: limit}}
}

// named is what requests and notifications have, and responses hardly.
const named = `"method"`

// paced is the body of a response. A stream of events is read no faster than its messages are handled, and an event of it is
// no longer than limit, which is 0 for what is no stream.
type paced struct {
	io.ReadCloser
	*backlog
	limit   int64
	event   []byte // what has come of it
	blank   bool   // the last line has ended
	matched int    // how much of what names a method has come
	held    *question
	rest    []byte // was read, and comes behind the end of the event that is held
	failed  error  // comes behind that
	end     <-chan struct{}
	closed  func()
}

// Close implements [io.Closer].
func (p *paced) Close() error {
	defer p.closed()
	return p.ReadCloser.Close()
}

// Read implements [io.Reader].
func (p *paced) Read(b []byte) (int, error) {
	if p.wait(); p.broken.Err() != nil {
		return 0, context.Cause(p.broken)
	}
	if q := p.held; q != nil && len(b) > 0 {
		if !p.comes(q, p.end) {
			return 0, io.ErrUnexpectedEOF
		}
		p.held = nil
		b[0] = '\n'
		return 1, nil
	}
	n, err := copy(b, p.rest), error(nil)
	if p.rest = p.rest[n:]; n == 0 {
		if err = p.failed; err == nil {
			n, err = p.ReadCloser.Read(b)
		}
	}
	if long, is := errors.AsType[*http.MaxBytesError](err); is {
		p.fail(tooMuch("bytes in an answer", long.Limit))
	}
	if p.limit == 0 {
		return n, err
	}
	for i, c := range b[:n] {
		p.event = append(p.event, c)
		ended := c == '\n' && p.blank
		switch {
		case p.matched == len(named):
		case c == named[p.matched]:
			p.matched++
		case c == named[0]:
			p.matched = 1
		default:
			p.matched = 0
		}
		p.blank = c == '\n' || p.blank && c == '\r'
		if !ended {
			continue
		}
		q := p.ended()
		if q == nil {
			continue
		}
		p.held, p.rest, p.failed = q, slices.Concat(b[i+1:n], p.rest), err
		if i == 0 {
			return p.Read(b)
		}
		return i, nil
	}
	if int64(len(p.event)) > p.limit {
		p.fail(tooMuch("bytes in an event", p.limit))
	}
	if err == nil {
		return n, nil
	}
	if q := p.ended(); q != nil && err == io.EOF && !p.comes(q, p.end) { // the SDK takes an event for whole that ends with its stream
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// ended notes that an event has ended, and returns the question that it brings, or nil.
func (p *paced) ended() *question {
	event, is := p.event, p.matched == len(named) // else it is a response, which no handler gets
	p.event, p.matched = p.event[:0], 0
	if !is {
		return nil
	}
	p.came(1)
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
