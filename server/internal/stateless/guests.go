package stateless

import (
	"context"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// Guests are protocols that clients of this revision may speak besides: their requests follow its
// rules, and so do the results. See [dialect.Guest].

// caller is what guests learn of a client.
func (d *stateless) caller(r *request) *dialect.Caller {
	return &dialect.Caller{Features: r.features, Experiments: d.Experiments(r.experimental), Tasks: r.tasks, Result: d.toolResult}
}

// serveGuest has a guest answer a request.
func (d *stateless) serveGuest(ctx context.Context, r *request) ([]byte, error) {
	r.Caller = d.caller(r)
	result, rerr := d.Guest(r.Message).Serve(ctx, r.Exchange)
	if rerr != nil {
		return nil, rerr
	}
	return d.finish(opened(result), resultComplete), nil
}
