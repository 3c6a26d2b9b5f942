package durable

import (
	"context"
	"iter"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
)

// Row is what a store has of a saga, for tests that see what servers write.
type Row = row

// OpenRow opens a record.
func OpenRow(keys *codec.Keyset, audience string, record *store.Record) (*Row, error) {
	s := rows{sealer: sealer{keys: func() *codec.Keyset { return keys }, audience: audience}}
	return s.openRow(record)
}

// SagaID is the ID of the row of a saga that its client drives.
func SagaID(c *Core, principal string, saga [16]byte) store.ID { return c.rows.sagaID(principal, saga) }

// Watch yields a task each time that it has changed after revision after.
func (c *Core) Watch(ctx context.Context, principal, id string, after uint64) iter.Seq2[*tasks.Task, error] {
	return func(yield func(*tasks.Task, error) bool) {
		for n, err := range c.Follow(ctx, principal, id, tasks.NoEvents, nil) {
			if err == nil && (n.Task == nil || n.Task.Rev <= after) {
				continue
			}
			if !yield(n.Task, err) {
				return
			}
		}
	}
}
