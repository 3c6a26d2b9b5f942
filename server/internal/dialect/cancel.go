package dialect

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// cancelMethod is the notification by which either side takes back a request.
const cancelMethod = "notifications/cancelled"

// Cancelled returns the id of the request that a message takes back, as it was written;
// nil if it does not. A request that is unknown or answered is to be ignored (MCP,
// basic/patterns/cancellation).
func Cancelled(m *wire.Message) jsontext.Value {
	if m.Method != cancelMethod || !m.Notification() {
		return nil
	}
	return jsonview.Get(m.Params, "requestId")
}

// Cancellation is the notification that takes back the request with that id, and why.
func Cancellation(id []byte, why error) (method string, params json.RawMessage) {
	b := append([]byte(`{"requestId":`), id...)
	reason := why.Error()
	if errors.Is(why, context.Canceled) {
		reason = ErrCancelled.Error()
	}
	return cancelMethod, append(wire.AppendString(append(b, `,"reason":`...), reason), '}')
}
