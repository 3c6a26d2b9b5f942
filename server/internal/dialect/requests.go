package dialect

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A request of a session may have begun a task whose name is not made of the request. A client
// cancels it by the request's id, at any replica: so that is remembered.

// requestTime is for how long it is remembered which task a request has begun.
const requestTime = 24 * time.Hour

// RememberRequest remembers which task a request of a session has begun. session is what only
// those know who are in it.
func (h *Host) RememberRequest(ctx context.Context, principal, session string, id jsontext.Value, task string) error {
	canonical, ok := wire.CanonicalID(id)
	if !ok {
		return nil
	}
	return durable.SetDocument(ctx, h.Core, principal, h.Core.DocumentName("request", session, canonical), h.Turns.Now().Add(requestTime), task)
}

// TaskOfRequest returns the id of the task that a request of a session has begun, as far as that
// was remembered; empty if it was not.
func (h *Host) TaskOfRequest(ctx context.Context, session string, id jsontext.Value) (task string, err error) {
	canonical, ok := wire.CanonicalID(id)
	if !ok {
		return "", nil
	}
	found, err := durable.ReadDocument[string](ctx, h.Core, h.Core.DocumentName("request", session, canonical))
	if err != nil {
		return "", err
	}
	return found.Value, nil
}
