package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// lines frames JSON-RPC messages as lines: MCP's stdio transport. It is a
// jsonrpc2.ObjectStream that limits the length of a line and remembers why it
// ended, which a jsonrpc2.Conn does not tell.
type lines struct {
	in    *bufio.Reader
	out   io.WriteCloser
	limit int

	writing sync.Mutex

	mu    sync.Mutex
	cause error
}

func newLines(in io.Reader, out io.WriteCloser, limit int) *lines {
	return &lines{in: bufio.NewReader(in), out: out, limit: limit}
}

// WriteObject implements jsonrpc2.ObjectStream.
func (l *lines) WriteObject(object any) error {
	line, err := json.Marshal(object)
	if err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err = l.out.Write(append(line, '\n'))
	return err
}

// ReadObject implements jsonrpc2.ObjectStream. Empty lines are skipped.
func (l *lines) ReadObject(v any) error {
	for {
		line, err := readLine(l.in, l.limit)
		if err != nil {
			l.fail(err)
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, v); err != nil {
			err = &ProtocolError{Reason: fmt.Sprintf("the server wrote a line that is not a JSON-RPC message: %.80q", line), Err: err}
			l.fail(err)
			return err
		}
		return nil
	}
}

// Close implements jsonrpc2.ObjectStream. It ends the output, which asks the
// other side to finish, and leaves the input to end by itself.
func (l *lines) Close() error { return l.out.Close() }

// fail records the first reason for which the stream is of no more use.
func (l *lines) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = err
	}
}

// failure returns what fail recorded.
func (l *lines) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// readLine reads up to the next newline. A last line without one is a line that
// was cut off, so it is not returned.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, tooMuch(limit, "bytes in a line")
		}
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}
