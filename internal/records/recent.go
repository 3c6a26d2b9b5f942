package records

import "sync"

const (
	// recentMost is how many entries are remembered at least, and at most twice as many.
	recentMost = 1024
	// recentBytes is how large a token and a response are remembered.
	recentBytes = 8 << 10
)

// recent remembers entries that this process has written last, while they wait for their client.
// Clients that answer at once then cost no read: whoever goes on from an entry that is not the
// newest any more finds that out by its swap, which fails.
type recent struct {
	mu         sync.Mutex
	young, old map[string]*Entry // by key; the old ones go when there are enough young ones
}

// note remembers e, which nobody changes any more, or forgets what was known before.
func (r *recent) note(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.old, e.key)
	if e.Ended || e.Claim != nil || len(e.Token)+len(e.Response) > recentBytes {
		delete(r.young, e.key)
		return
	}
	if r.young == nil || len(r.young) >= recentMost {
		r.young, r.old = make(map[string]*Entry), r.young
	}
	r.young[e.key] = e
}

// Unrecorded remembers that the saga of e, which was just begun, has no record yet.
func (b *Book) Unrecorded(e *Entry) { b.recent.note(e) }

// Recent returns the record of a saga that waits for its client if this process has written it
// lately, or begun the saga without one, and nil otherwise. Others may have changed it since: then [Book.Put] fails with
// [ErrConflict].
func (b *Book) Recent(principal string, id [16]byte) *Entry {
	key := b.sagaKey(principal, id[:])
	b.recent.mu.Lock()
	defer b.recent.mu.Unlock()
	if e := b.recent.young[key]; e != nil {
		return e
	}
	return b.recent.old[key]
}
