//go:build unix

package server

import (
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watchUnread looks now and then whether anybody can still read what is written to out,
// and calls gone with the error that writing would have, once, if not. Only pipes and
// sockets can tell. It ends with stop, which waits for it.
func watchUnread(out io.Writer, every time.Duration, gone func(error)) (stop func()) {
	f, ok := out.(*os.File)
	if !ok {
		return func() {}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return func() {}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return func() {}
	}
	// What is reported unasked is enough, except of a pipe on Darwin. There a socket is
	// said to be hung up already when its other end has no more to say.
	var events int16
	if info.Mode()&fs.ModeNamedPipe != 0 {
		events = unix.POLLHUP
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			// It is asked without waiting, as waiting would hold up closing the file.
			var unread bool
			err := raw.Control(func(fd uintptr) {
				fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
				n, err := unix.Poll(fds, 0)
				unread = err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
			})
			switch {
			case err != nil:
				return // it was closed here, which the next write will find
			case unread:
				gone(&fs.PathError{Op: "write", Path: f.Name(), Err: unix.EPIPE})
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
