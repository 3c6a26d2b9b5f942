package durable

import (
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/store"
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
