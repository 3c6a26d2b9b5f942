package jsonview

import "time"

// Large is how many bytes JSON may have without waiting in [TakeApart].
const Large = 64 << 10

// apart is how much larger JSON is taken apart at once in a process, in bytes: what is made of it takes up to sixty times as
// much memory.
const apart = 2 << 20

// patience is how long one waits for others, in case that what they do hangs: an author's code may read JSON, too.
var patience = 30 * time.Second

var (
	first = make(chan struct{}, 1) // full while one waits for parts
	parts = make(chan struct{}, apart/Large)
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
	select {
	case first <- struct{}{}:
		for waits := true; waits && taken < n; {
			select {
			case parts <- struct{}{}:
				taken++
			case <-timer.C:
				waits = false
			}
		}
		<-first
	case <-timer.C:
	}
	return func() {
		for range taken {
			<-parts
		}
	}
}
