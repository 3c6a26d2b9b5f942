package jsonview

import (
	"sync/atomic"
	"time"
)

// Large is how many bytes JSON may have without waiting in [TakeApart].
const Large = 64 << 10

// apart is how much larger JSON is taken apart at once in a process, in bytes: what is made of it takes up to sixty times as
// much memory.
const apart = 2 << 20

// patience is how long one waits after the last other one was done, in case that what they do hangs: an author's code may
// read JSON, too.
var patience = 30 * time.Second

var (
	first = make(chan struct{}, 1) // full while one waits for parts
	parts = make(chan struct{}, apart/Large)
	began = time.Now()
	freed atomic.Int64 // when the last one was done, after began
)

// TakeApart waits until so many bytes of JSON may be taken apart. done must be called when that is over. It is not for
// what is decoded within that: the one would wait for the other.
func TakeApart(size int) (done func()) {
	n := min(size/Large, cap(parts))
	if n == 0 {
		return func() {}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	taken := 0
	if take(first, timer) {
		for taken < n && take(parts, timer) {
			taken++
		}
		<-first
	}
	return func() {
		if taken == n { // else it has not waited for its turn
			freed.Store(int64(time.Since(began)))
		}
		for range taken {
			<-parts
		}
	}
}

// take reports whether it has taken one of c, or is out of patience.
func take(c chan<- struct{}, timer *time.Timer) bool {
	for {
		select {
		case c <- struct{}{}:
			return true
		case <-timer.C:
			left := patience - (time.Since(began) - time.Duration(freed.Load()))
			if left <= 0 {
				timer.Reset(0)
				return false
			}
			timer.Reset(left)
		}
	}
}
