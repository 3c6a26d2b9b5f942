package sqlite

import (
	"sync"
	"sync/atomic"
)

// op is something to do in a transaction.
type op struct {
	// run does it. Its error is a *[broken] if the transaction cannot go on. Any other, as
	// [ledger.ErrConflict] or errNothing, means that the operation has changed nothing.
	run   func(*tx) error
	bytes int // about how much it writes
	// begun is set by the writer before it runs the operation, or by the caller who gives
	// up before that: whoever is first.
	begun atomic.Bool
	err   error      // what run returned
	done  chan error // gets the outcome
}

// queue are the operations that wait for the writer. A channel of them would cost each caller a
// select more.
type queue struct {
	bell bell // rings when there is something again

	mu     sync.Mutex
	ops    []*op
	first  int // of ops; those before it were taken
	closed bool
}

// add has an operation wait, unless the queue is closed.
func (q *queue) add(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if q.first == len(q.ops) {
		q.bell.ring()
	}
	if len(q.ops) == cap(q.ops) && q.first > len(q.ops)/2 { // rather than take more memory
		n := copy(q.ops, q.ops[q.first:])
		clear(q.ops[n:])
		q.ops, q.first = q.ops[:n], 0
	}
	q.ops = append(q.ops, o)
	return true
}

// take returns the operation that has waited longest, or nil.
func (q *queue) take() *op {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first == len(q.ops) {
		return nil
	}
	o := q.ops[q.first]
	q.ops[q.first] = nil
	if q.first++; q.first == len(q.ops) {
		q.ops, q.first = q.ops[:0], 0
	}
	return o
}

// close has nothing more be added.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
