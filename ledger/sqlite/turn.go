package sqlite

import (
	"math/rand/v2"
	"time"

	"github.com/gofrs/flock"
)

const (
	// turnPoll is about how often a process that waits for its turn tries to begin.
	turnPoll = time.Millisecond
	// turnPause is how long a process leaves the file alone after a group if another waits:
	// long enough for that one to try.
	turnPause = 2 * time.Millisecond
)

// turn makes processes that write without a break take turns. SQLite alone gives the file to
// whoever tries first, and that is nearly always the one that has just let go of it.
//
// Who waits holds a shared lock of a file beside the database. Who has written tries to lock
// it for itself, which fails while anybody waits. The system takes the lock away from a
// process that dies. The lock is a courtesy: without it nothing breaks, so its errors do not matter.
type turn struct {
	lock   *flock.Flock
	looked time.Time // when it was found that nobody waits
}

func newTurn(path string) *turn {
	return &turn{lock: flock.New(path+"-wait", flock.SetPermissions(0o600))}
}

// wait shows that this process waits.
func (t *turn) wait() { _, _ = t.lock.TryRLock() }

// done takes the sign back.
func (t *turn) done() { _ = t.lock.Close() }

// yield lets others go first, if any wait. To look costs as much as a small group, and who waits
// tries no more often than this looks.
func (t *turn) yield() {
	if time.Since(t.looked) < turnPoll {
		return
	}
	got, err := t.lock.TryLock()
	t.done()
	if err == nil && !got {
		time.Sleep(turnPause)
		return
	}
	t.looked = time.Now()
}

// jitter is a random time from half of d to one and a half.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
