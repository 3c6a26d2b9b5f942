package linestream_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/internal/linestream"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// methods are a handler that notes what it handles.
type methods chan string

func (m methods) Handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) { m <- r.Method }

func quietly() jsonrpc2.ConnOpt { return jsonrpc2.SetLogger(log.New(io.Discard, "", 0)) }

// end is one end of a connection, and what it was sent.
type end struct {
	linestream.Conn
	say     io.Writer // what it reads
	said    *bufio.Reader
	handled chan string // messages that no call has waited for
	why     chan error  // why it ended
	ended   <-chan struct{}
}

var errBad = errors.New("a bad line")

// open opens a connection whose lines are messages with commas between them, and semicolons for
// commas. A line can be bad, and a message wrong.
func open(t *testing.T) *end {
	t.Helper()
	in, say := io.Pipe()
	said, out := io.Pipe()
	e := &end{say: say, said: bufio.NewReader(said), handled: make(chan string, 99), why: make(chan error, 9)}
	e.Conn = linestream.Conn{
		In: bufio.NewReader(in), Out: out, Limit: 100,
		Read: func(line []byte) (all []linestream.Message, err error) {
			for part := range bytes.SplitSeq(bytes.TrimSpace(line), []byte(",")) {
				part = bytes.ReplaceAll(part, []byte(";"), []byte(","))
				m := linestream.Message{Text: json.RawMessage(part), Handle: func() error {
					e.handled <- string(part)
					return nil
				}}
				fmt.Sscanf(string(part), `{"id":%d`, &m.Answers)
				if string(part) == "wrong" || m.Answers == 99 {
					m.Handle = func() error { return errBad }
				}
				all = append(all, m)
			}
			if string(line) == "bad\n" {
				err = errBad
			}
			return all, err
		},
		Ended: func(err error) { e.why <- err },
	}
	e.ended = e.Start(t.Context())
	t.Cleanup(func() {
		say.Close()
		said.Close()
		<-e.ended
	})
	return e
}

func (e *end) says(line string) { fmt.Fprintln(e.say, line) }

func (e *end) hears(t *testing.T) string {
	t.Helper()
	line, err := e.said.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}

// call begins a call and reads its request.
func (e *end) call(t *testing.T, ctx context.Context, id uint64) (wait func() (json.RawMessage, error)) {
	t.Helper()
	request := make(chan string)
	go func() {
		line, _ := e.said.ReadString('\n')
		request <- line
	}()
	wait, err := e.Call(ctx, id, fmt.Appendf(nil, `{"b":"<%d>","a":1}`, id))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("{\"b\":\"<%d>\",\"a\":1}\n", id), <-request, "as it was")
	return wait
}

// Calls get their responses, in whatever order these come, as they were written.
func TestCallsGetTheirResponses(t *testing.T) {
	e := open(t)
	one, two := e.call(t, t.Context(), 1), e.call(t, t.Context(), 1<<60)
	for id, wait := range map[uint64]func() (json.RawMessage, error){1 << 60: two, 1: one} {
		text := fmt.Sprintf(`{"id":%d;"b":"<\u00e9>";"a":1.50}`, id)
		e.says(text)
		response, err := wait()
		require.NoError(t, err)
		assert.Equal(t, strings.ReplaceAll(text, ";", ","), string(response))
	}
	e.says(`{"id":1}`)
	assert.Equal(t, `{"id":1}`, <-e.handled, "it was answered before")
}

// What is kept of a call that was given up is freed by Forget. Before, a late response is ignored, and
// the library keeps the call.
func TestCallsAreForgotten(t *testing.T) {
	e := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for id := range uint64(2) {
		_, err := e.call(t, ctx, id+1)()
		require.ErrorIs(t, err, context.Canceled)
	}
	e.Forget(2)
	e.says(`{"id":1},{"id":2},after`)
	assert.Equal(t, `{"id":2}`, <-e.handled)
	assert.Equal(t, "after", <-e.handled)
}

// Whatever ends a connection, calls fail, and what is due can still be written.
func TestEndOfAConnection(t *testing.T) {
	for name, finish := range map[string]struct {
		do   func(*end)
		want error
	}{
		"the input":      {func(e *end) { e.say.(io.Closer).Close() }, io.EOF},
		"a bad line":     {func(e *end) { e.says("bad") }, errBad},
		"what it has":    {func(e *end) { e.says("first,wrong,never") }, errBad},
		"a stray answer": {func(e *end) { e.says(`{"id":99}`) }, errBad},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			wait := e.call(t, t.Context(), 1)
			finish.do(e)
			_, err := wait()
			require.ErrorIs(t, err, jsonrpc2.ErrClosed)
			require.Len(t, e.why, 1, "it is known why before calls fail")
			assert.Equal(t, finish.want, <-e.why)
			<-e.ended
			if name == "what it has" {
				assert.Equal(t, "first", <-e.handled)
			}
			assert.Empty(t, e.handled)
			go func() { assert.NoError(t, e.Write([]byte("due"))) }()
			assert.Equal(t, "due", e.hears(t), "what is due can be written")
			_, err = e.Call(t.Context(), 2, []byte("a question"))
			assert.ErrorIs(t, err, jsonrpc2.ErrClosed)
		})
	}
}

// After the end of its context a connection handles nothing more.
func TestEndOfTheContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	in, say := io.Pipe()
	read, why := make(chan string, 9), make(chan error, 1)
	c := linestream.Conn{In: bufio.NewReader(in), Out: io.Discard, Limit: 9, Ended: func(err error) { why <- err }, Read: func(line []byte) ([]linestream.Message, error) {
		read <- string(line)
		return nil, nil
	}}
	ended := c.Start(ctx)
	fmt.Fprintln(say, "one")
	require.Equal(t, "one\n", <-read)
	stop()
	<-ended
	fmt.Fprintln(say, "two")
	assert.ErrorIs(t, <-why, jsonrpc2.ErrClosed)
	assert.Empty(t, read)
	say.Close()
}

// When a write has failed, or was said to, nothing more is written.
func TestWritesFailForGood(t *testing.T) {
	for _, by := range []string{"a write", "Fail"} {
		out := &breaking{}
		why := make(chan error, 9)
		in, say := io.Pipe()
		c := linestream.Conn{In: bufio.NewReader(in), Out: out, Ended: func(err error) { why <- err }}
		ended := c.Start(t.Context())
		require.NoError(t, c.Failed())
		if by == "Fail" {
			c.Fail(os.ErrClosed)
		} else {
			require.ErrorIs(t, c.Write([]byte("one")), os.ErrClosed)
		}
		require.ErrorIs(t, <-why, os.ErrClosed)
		tries := out.tries
		assert.ErrorIs(t, c.Write([]byte("two")), os.ErrClosed)
		_, err := c.Call(t.Context(), 1, []byte("three"))
		assert.ErrorIs(t, err, os.ErrClosed)
		assert.ErrorIs(t, c.Failed(), os.ErrClosed)
		assert.Equal(t, tries, out.tries)
		c.Fail(io.ErrClosedPipe)
		assert.ErrorIs(t, c.Failed(), os.ErrClosed, "the first error")
		assert.Empty(t, why, "it is said once")
		say.Close()
		<-ended
	}
}

// breaking is an output that was closed.
type breaking struct{ tries int }

func (b *breaking) Write([]byte) (int, error) {
	b.tries++
	return 0, os.ErrClosed
}

// A line that is too long is refused before it ends, if it ever does.
func TestLinesWithoutAnEnd(t *testing.T) {
	in, say := io.Pipe()
	c := linestream.Conn{In: bufio.NewReaderSize(in, 16), Limit: 100, Ended: func(error) {}, Read: func(line []byte) ([]linestream.Message, error) {
		assert.Nil(t, line)
		return nil, errBad
	}}
	ended := c.Start(t.Context())
	go say.Write(bytes.Repeat([]byte("x"), 1000))
	select {
	case <-ended:
	case <-time.After(time.Minute):
		require.Fail(t, "the line is still read")
	}
	in.Close()
}

// Lines that are too long are passed over, whatever the sizes of buffers are.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{}\n\nabc"), 10)
	f.Add([]byte(strings.Repeat("y", 100)+"\nshort\n"+strings.Repeat("x", 16)+"\nend"), 16)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		var want, got []string
		for line := range bytes.SplitAfterSeq(data, []byte("\n")) {
			switch {
			case len(line) > max(limit, 0) && len(line) > 0:
				want = append(want, "too long")
			case len(bytes.TrimSpace(line)) > 0:
				want = append(want, string(line))
			}
		}
		c := linestream.Conn{In: bufio.NewReaderSize(bytes.NewReader(data), 16), Limit: max(limit, 0), Ended: func(error) {}, Read: func(line []byte) ([]linestream.Message, error) {
			if line == nil {
				line = []byte("too long")
			}
			got = append(got, string(line))
			return nil, nil
		}}
		select {
		case <-c.Start(t.Context()):
		case <-time.After(time.Minute):
			require.Fail(t, "it does not end")
		}
		require.Equal(t, want, got)
	})
}
