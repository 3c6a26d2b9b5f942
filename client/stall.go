package client

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// defaultStall is how long [HTTP] waits for a response to go on, unless it says
// otherwise.
const defaultStall = 30 * time.Second

// errStalled is the error of a turn whose response began and then did not go on.
var errStalled = fmt.Errorf("%w: its answer began and does not go on", ErrTimeout)

// minProgress is how many bytes count as going on: a server that sends one now and
// then keeps its client waiting as long as it likes.
const minProgress = 1 << 10

// readAll reads in to its end, or to the limit and one byte. It gives up once less
// than minProgress bytes have come in the time of patience, unless nothing has come
// at all, as the tool may be at work; stop must end a read
// that is under way.
func readAll(in io.Reader, limit int64, patience time.Duration, stop context.CancelCauseFunc) ([]byte, error) {
	counted := &progress{in: io.LimitReader(in, limit+1)}
	seen := int64(0)
	var watch *time.Timer
	watching := make(chan struct{}) // closed when watch has its value
	watch = time.AfterFunc(patience, func() {
		<-watching
		now := counted.n.Load()
		if now > 0 && now-seen < minProgress {
			stop(errStalled)
			return
		}
		seen = now
		watch.Reset(patience)
	})
	close(watching)
	defer watch.Stop()
	return io.ReadAll(counted)
}

// progress counts the bytes that were read.
type progress struct {
	in io.Reader
	n  atomic.Int64
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.n.Add(int64(n))
	return n, err
}
