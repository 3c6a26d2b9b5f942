package wire

import "sync"

// BufferPool has buffers that responses are put together in. What it gets back is
// wiped, so nothing that one caller was told can turn up in what another is.
//
// A response is some of a kilobyte, and several of them were a good part of what
// a turn left to the garbage collector.
type BufferPool struct{ pool sync.Pool }

const (
	// usualResponse is what most responses fit in, in bytes.
	usualResponse = 2 << 10
	// largestKept is the largest buffer worth keeping, in bytes: a large response
	// must not stay for the sake of small ones.
	largestKept = 16 << 10
)

// Get returns a buffer to append to.
func (p *BufferPool) Get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, usualResponse)
	return &b
}

// Put ends the use of what Get returned and of used, which is what has become of
// it. Nobody may look at either any more.
func (p *BufferPool) Put(b *[]byte, used []byte) {
	if cap(used) <= largestKept {
		clear(used[:cap(used)]) // all of it: a response may have been begun and then replaced
		*b = used[:0]
		p.pool.Put(b)
	}
}
