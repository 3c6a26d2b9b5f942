package records

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// probeSize is how much a probe writes, in bytes: as much as larger records have, so that a file
// or a disk that is full has no room for it.
const probeSize = 8 << 10

// Probe finds out whether records can be made and changed, with one that is soon forgotten. It does
// not wait for a store that fails.
func (b *Book) Probe(ctx context.Context) error {
	r := &ledger.Record{Key: b.plainName("probe", rand.Text()), Body: make([]byte, probeSize), Keep: time.Now().Add(time.Hour)}
	rand.Read(r.Body) // never fails
	for range 2 {
		_, _, err := try(&b.writes, func() (any, error) { return nil, b.store.Swap(ctx, r) })
		if err != nil && !errors.Is(err, ledger.ErrConflict) {
			return fmt.Errorf("nothing can be written: %w", err)
		}
		r.Body, r.Keep = nil, time.Unix(1, 0)
	}
	return nil
}

// WriteFailures counts the times that the store has failed to write.
func (b *Book) WriteFailures() uint64 {
	b.writes.mu.Lock()
	defer b.writes.mu.Unlock()
	return b.writes.failures
}
