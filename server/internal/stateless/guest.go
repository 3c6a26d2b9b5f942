package stateless

import (
	"context"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// The guest is a protocol that clients of this revision may speak besides: its requests follow the
// rules here, and so do the results. See [dialect.Guest].

// caller is what the guest learns of a client.
func (d *stateless) caller(r *request) *dialect.Caller {
	return &dialect.Caller{Features: r.features, Declared: d.DeclaresGuest(r.experimental), Tasks: r.tasks, Result: d.toolResult}
}

// serveGuest has the guest answer a request.
func (d *stateless) serveGuest(ctx context.Context, r *request) ([]byte, error) {
	r.Caller = d.caller(r)
	result, rerr := d.Guest.Serve(ctx, r.Exchange)
	if rerr != nil {
		return nil, rerr
	}
	return d.finish(opened(result), resultComplete), nil
}
