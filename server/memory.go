package server

import "sync"

// memory lends the memory that responses are put together in. What it gets back is
// wiped, so nothing that one caller was told can turn up in what another is.
//
// A response is some of a kilobyte, and several of them were a good part of what
// a turn left to the garbage collector.
type memory struct{ pool sync.Pool }

const (
	// usualResponse is what most responses fit in, in bytes.
	usualResponse = 2 << 10
	// largestKept is the largest memory worth keeping, in bytes: a large response
	// must not stay for the sake of small ones.
	largestKept = 16 << 10
)

// lend returns memory to append to.
func (m *memory) lend() *[]byte {
	if b, ok := m.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, usualResponse)
	return &b
}

// takeBack ends the use of what lend returned and of used, which is what has
// become of it. Nobody may look at either any more.
func (m *memory) takeBack(b *[]byte, used []byte) {
	if cap(used) <= largestKept {
		clear(used[:cap(used)]) // all of it: a response may have been begun and then replaced
		*b = used[:0]
		m.pool.Put(b)
	}
}
