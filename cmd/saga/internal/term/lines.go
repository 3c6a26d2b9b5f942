package term

import (
	"context"
	"errors"
	"io"

	"github.com/muesli/cancelreader"

	"github.com/mcpsaga/mcpsaga/client"
)

// lineReader gives the form library, which buffers ahead and takes the end of the
// input for an answer, one line at a time, and remembers how the input ended.
type lineReader struct {
	in   cancelreader.CancelReader
	ctx  context.Context
	stop func() bool
	err  error
}

func newLineReader(ctx context.Context, in io.Reader) *lineReader {
	cancellable, err := cancelreader.NewReader(in)
	if err != nil { // an input that cannot be waited for, such as a plain file
		cancellable, _ = cancelreader.NewReader(struct{ io.Reader }{in})
	}
	return &lineReader{
		in: cancellable, ctx: ctx,
		stop: context.AfterFunc(ctx, func() { cancellable.Cancel() }),
	}
}

// Read implements io.Reader. It returns at most one line.
func (l *lineReader) Read(p []byte) (int, error) {
	for n := range p {
		if l.err != nil {
			return n, l.err
		}
		read, err := l.in.Read(p[n : n+1])
		if err != nil {
			l.err = err
		}
		if read == 1 && p[n] == '\n' {
			return n + 1, nil
		}
		if read == 0 {
			return n, l.err
		}
	}
	return len(p), nil
}

// ended reports whether there is nothing more to read, so that asking again is
// in vain.
func (l *lineReader) ended() bool { return l.err != nil }

// failure says why reading ended before all was answered.
func (l *lineReader) failure() error {
	if cause := context.Cause(l.ctx); cause != nil {
		return cause
	}
	if errors.Is(l.err, io.EOF) {
		return client.ErrPause
	}
	return l.err
}

func (l *lineReader) close() {
	l.stop()
	_ = l.in.Close()
}
