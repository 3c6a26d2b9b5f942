package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Settings are what a test changes of a store. What is zero is as programs have it.
type Settings struct {
	Patience, Gather time.Duration
	Connect          func(*pgx.ConnConfig)
}

// OpenWith is Open with other settings.
func OpenWith(ctx context.Context, url string, change Settings) (store.Store, error) {
	set := usual()
	set.patience = cmp.Or(change.Patience, set.patience)
	set.gather = cmp.Or(change.Gather, set.gather)
	if change.Connect != nil {
		set.connect = change.Connect
	}
	return open(ctx, url, set)
}

// Channel is what processes notify one another on.
const Channel = channel
