package durable

import "github.com/mcpsaga/mcpsaga/internal/store"

// SagaID is the ID of the row of a saga that its client drives.
func SagaID(c *Core, principal string, saga [16]byte) store.ID { return c.rows.sagaID(principal, saga) }
