package sqlite

import (
	"math/rand/v2"
	"time"

	"github.com/gofrs/flock"
)

const (
	lockPoll  = time.Millisecond     // about how often a process that waits for the file tries to lock it
	lockPause = 2 * time.Millisecond // how long one that has written leaves the file to others that wait
)

// lock waits for other processes, and lets them in. SQLite alone gives the file to whichever process tries
// first, and that is nearly always the one that has just let go of it.
//
// A process that waits holds a shared lock of a file beside the database, the sign. One that has
// written tries to lock it for itself, which fails while another waits. The system takes the
// lock from a process that dies. It is a courtesy: without it nothing breaks, so its errors do not matter.
type lock struct {
	sign     *flock.Flock
	patience time.Duration
	looked   time.Time // when it was found that no process waits
}

func newLock(path string, patience time.Duration) *lock {
	return &lock{sign: flock.New(path+"-wait", flock.SetPermissions(0o600)), patience: patience}
}

// wait tries until no other process is in the way, but no longer than its patience. Stop ends it
// with [errStopped].
func (l *lock) wait(stop <-chan struct{}, try func() error) error {
	err := try()
	if !isBusy(err) {
		return err
	}
	defer l.sign.Close()
	for began := time.Now(); isBusy(err) && time.Since(began) < l.patience; err = try() {
		_, _ = l.sign.TryRLock()
		select {
		case <-stop:
			return errStopped
		case <-time.After(lockPoll/2 + rand.N(lockPoll)):
		}
	}
	return err
}

// yield lets other processes go first, if any wait. To look costs as much as a small group, and a process
// that waits tries no more often than this looks.
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
