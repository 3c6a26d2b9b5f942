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

// Probe finds out whether records can be made, with an item as tasks have them, read and changed. It does
// so with a record that is soon forgotten, and does not wait for a store that fails.
func (b *Book) Probe(ctx context.Context) error {
	r := &ledger.Record{Key: b.plainName("probe", rand.Text()), Body: make([]byte, probeSize), Keep: time.Now().Add(time.Hour)}
	rand.Read(r.Body) // never fails
	items := []ledger.Item{{N: 1, Body: r.Body[:1]}}
	for range 2 {
		_, _, err := try(&b.writes, func() (any, error) { return nil, b.store.Swap(ctx, r, items...) })
		if err != nil && !errors.Is(err, ledger.ErrConflict) {
			return fmt.Errorf("nothing can be written: %w", err)
		}
		r.Body, r.Keep, items = nil, time.Unix(1, 0), nil
	}
	if _, err := b.store.Items(ctx, r.Key, 0, 1); err != nil {
		return fmt.Errorf("what is written cannot be read: %w", err)
	}
	return nil
}

// WriteFailures counts the times that the store has failed to write.
func (b *Book) WriteFailures() uint64 {
	b.writes.mu.Lock()
	defer b.writes.mu.Unlock()
	return b.writes.failures
}
