package gosdk

import (
	"context"
	"net/http"
)

// Deliver is [server.Server.Deliver]: it gives the event of a handle its value. It needs Options.Ledger, as tools with
// events do.
func (m *Mounted) Deliver(ctx context.Context, handle string, value any) error {
	return m.server.Deliver(ctx, handle, value)
}

// Reject is [server.Server.Reject]: it says that an event will not happen.
func (m *Mounted) Reject(ctx context.Context, handle, reason string) error {
	return m.server.Reject(ctx, handle, reason)
}

// Signal is [server.Server.Signal]: it is Deliver for a tool's event with a key.
func (m *Mounted) Signal(ctx context.Context, tool, event, key string, value any) error {
	return m.server.Signal(ctx, tool, event, key, value)
}

// EventHandler is [server.Server.EventHandler], which takes deliveries: for the mux beside the SDK's own handler.
func (m *Mounted) EventHandler() http.Handler { return m.server.EventHandler() }
