package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// patience is how long a turn waits until its line is written.
	patience = 2 * time.Second
	// maxLines and maxBytes bound what waits for a writer that has stalled. One line may be longer.
	maxLines, maxBytes = 16 << 10, 8 << 20
	// reminder is how often it is logged that lines cannot be written.
	reminder = time.Minute
)

var (
	errStalled = errors.New("the writer takes no lines")
	errFull    = errors.New("the writer takes no lines, and too many wait for it")
)

// Log writes records. It is safe for concurrent use.
type Log struct {
	key []byte
	log *slog.Logger
	w   io.Writer // used by one goroutine at a time, which ends when the queue is empty

	mu      sync.Mutex
	queue   []*line   // the first is being written
	bytes   int       // of the queue
	stalled bool      // a turn has waited in vain, and the queue has not been empty since
	lost    int       // lines that could not be written since that was logged
	alarmed time.Time // when it was logged
	torn    bool      // the last line ends in the middle, as the disk was full
}

// line is a line to be written.
type line struct {
	ctx     context.Context // of who logs that it cannot be written
	text    []byte
	written chan struct{} // closed when it was written, or lost
}

// New returns a log that writes to w, each line by one call, one after the other. Turns wait for w. If it blocks they do so for
// two seconds, and until it has caught up no turn waits again. Then 16384 lines of 8 MiB together wait for it at most. What else
// cannot be written is lost, and no turn fails for it.
func New(w io.Writer, o Options) *Log {
	l := &Log{key: o.Key, log: o.Logger, w: w}
	if l.log == nil {
		l.log = slog.Default()
	}
	return l
}

// Flush waits until all lines so far are written or lost. If ctx ends before, its error says how many wait.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	waiting := l.queue
	l.mu.Unlock()
	for i, e := range waiting {
		select {
		case <-e.written:
		case <-ctx.Done():
			return fmt.Errorf("audit: %d lines are not written: %w", len(waiting)-i, context.Cause(ctx))
		}
	}
	return nil
}

// write writes a record, and waits for that unless w has stalled.
func (l *Log) write(ctx context.Context, r *Record) {
	e := l.add(ctx, r)
	if e == nil {
		return
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-e.written:
	case <-timeout.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.stalled = len(l.queue) > 0; l.stalled {
			l.alarm(ctx, errStalled)
		}
	}
}

// add queues a record. It returns the line to wait for, if any.
func (l *Log) add(ctx context.Context, r *Record) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Time = time.Now().UTC()
	text, err := json.Marshal(r)
	if n := len(l.queue); err == nil && n > 0 && (n == maxLines || l.bytes+len(text) >= maxBytes) {
		err = errFull
	}
	if err != nil {
		l.lost++
		l.alarm(ctx, err)
		return nil
	}
	e := &line{ctx, append(text, '\n'), make(chan struct{})}
	l.queue, l.bytes = append(l.queue, e), l.bytes+len(e.text)
	if len(l.queue) == 1 {
		go l.drain()
	}
	if l.stalled {
		l.alarm(ctx, errStalled)
		return nil
	}
	return e
}

// drain writes the queue until it is empty.
func (l *Log) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		e := l.queue[0]
		text := e.text
		if l.torn {
			text = append([]byte{'\n'}, text...)
		}
		l.mu.Unlock()
		n, err := l.w.Write(text)
		l.mu.Lock()
		if n > 0 {
			l.torn = err != nil
		}
		if err != nil {
			l.lost++
			l.alarm(e.ctx, err)
		}
		l.queue, l.bytes = l.queue[1:], l.bytes-len(e.text)
		close(e.written)
	}
	l.queue, l.stalled = nil, false
}

// alarm logs that lines cannot be written, unless it has done so lately.
func (l *Log) alarm(ctx context.Context, err error) {
	if time.Since(l.alarmed) >= reminder {
		l.log.ErrorContext(ctx, "the audit cannot be written", "lost", l.lost, "waiting", len(l.queue), "error", err)
		l.alarmed, l.lost = time.Now(), 0
	}
}
