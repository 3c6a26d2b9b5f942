package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gofrs/flock"
)

const (
	// lockPoll is about how often a process that waits for the file tries to lock it.
	lockPoll = time.Millisecond
	// lockPause is how long a process leaves the file alone after a group if another waits: long
	// enough for that one to try.
	lockPause = 2 * time.Millisecond
)

// lock waits for other processes, and lets them in. SQLite alone gives the file to whichever process tries
// first, and that is nearly always the one that has just let go of it.
//
// A process that waits holds a shared lock of a file beside the database, the sign. One that has
// written tries to lock it for itself, which fails while another waits. The system takes the
// lock from a process that dies. It is a courtesy: without it nothing breaks, so its errors do not matter.
type lock struct {
	path     string
	patience time.Duration
	sign     *flock.Flock
	looked   time.Time // when it was found that no process waits

	poll <-chan struct{} // while it waits, calls look
	look func()
}

func newSign(path string) *flock.Flock {
	return flock.New(path+"-wait", flock.SetPermissions(0o600))
}

// wait tries until no other process is in the way: for as long as others get on, but not for one that
// hangs. Stop ends it with [errStopped].
func (l *lock) wait(stop <-chan struct{}, try func() error) error {
	err := try()
	if err == nil || !isBusy(err) {
		return err
	}
	defer l.sign.Close()
	others := pulse{paths: [2]string{l.path, l.path + "-wal"}}
	for {
		waited := others.idle()
		if waited > l.patience {
			return fmt.Errorf("%w (%w)", errLocked, err)
		}
		_, _ = l.sign.TryRLock()
		pause := lockPoll + waited/100
		select {
		case <-stop:
			return errStopped
		case <-l.poll:
			l.look()
		case <-time.After(pause/2 + rand.N(pause)):
		}
		if err = try(); err == nil || !isBusy(err) {
			return err
		}
	}
}

// yield lets other processes go first, if any wait. To look costs as much as a small group, and who waits
// tries no more often than this looks.
func (l *lock) yield() {
	if time.Since(l.looked) < lockPoll {
		return
	}
	got, err := l.sign.TryLock()
	_ = l.sign.Close()
	if err == nil && !got {
		time.Sleep(lockPause)
		return
	}
	l.looked = time.Now()
}

// pulse tells whether other processes get on with the file while they have it locked: who writes changes it
// or the -wal file, also within one long transaction.
type pulse struct {
	paths [2]string
	sizes [2]int64
	times [2]time.Time
	beat  time.Time // when a change was found last
}

// idle is how long no process has written, as far as was looked.
func (p *pulse) idle() time.Duration {
	now, changed := time.Now(), p.beat.IsZero()
	for i, path := range p.paths {
		if info, err := os.Stat(path); err == nil && (info.Size() != p.sizes[i] || !info.ModTime().Equal(p.times[i])) {
			p.sizes[i], p.times[i], changed = info.Size(), info.ModTime(), true
		}
	}
	if changed {
		p.beat = now
	}
	return now.Sub(p.beat)
}
