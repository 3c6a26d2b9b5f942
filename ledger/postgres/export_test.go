package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Settings are what a test changes of a store. What is zero is as programs have it.
type Settings struct{ Patience, Quiet, Look time.Duration }

// OpenWith is Open with other settings.
func OpenWith(ctx context.Context, url string, change Settings) (ledger.Store, error) {
	set := usual()
	set.patience = cmp.Or(change.Patience, set.patience)
	set.quiet = cmp.Or(change.Quiet, set.quiet)
	set.look = cmp.Or(change.Look, set.look)
	return open(ctx, url, set)
}

// Channel is what processes notify one another on, and Gather for how long they gather what they tell.
const Channel = channel

var Gather = usual().gather

// Told is the word by which others are told of a record.
func Told(key string) string { return short(hash(key)) }
