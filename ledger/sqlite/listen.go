package sqlite

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// listenPoll is how often to look whether other processes have changed something, while anything listens.
const listenPoll = 45 * time.Millisecond

// Listen implements [store.Store]. What another process changes is not known by its ID.
func (l *database) Listen(ctx context.Context, changed func(id store.ID, head uint64)) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	defer l.listeners.Add(changed)()
	changed(store.ID{}, 0) // what was written before may be missed
	poll := time.NewTicker(listenPoll)
	defer poll.Stop()
	for wal := (activity{path: l.path + "-wal"}); ; {
		select {
		case <-poll.C:
			if wal.quiet() {
				continue
			}
			select {
			case l.writer.poll <- struct{}{}:
			default: // another has asked
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closing:
			return store.ErrClosed
		}
	}
}

// activity is how lately a file was written. To ask SQLite what has changed costs several times what it costs to ask for
// the time at which the -wal file was written, and servers listen all the time.
type activity struct {
	path            string
	written, change time.Time // the file's time, and when it was found to have changed
}

// quiet reports whether the file was not written for a while. File systems keep times in steps of
// milliseconds, so the last of several writes may not have changed it. Windows notes it late.
func (a *activity) quiet() bool {
	info, err := os.Stat(a.path)
	if err != nil || runtime.GOOS == "windows" {
		return false
	}
	if now := info.ModTime(); !now.Equal(a.written) {
		a.written, a.change = now, time.Now()
	}
	return time.Since(a.change) > time.Second
}
