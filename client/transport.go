package client

import (
	"context"
	"encoding/json"
	"io"
)

// Transport carries requests to one server: [*HTTP] or [*Stdio]. It is safe for
// concurrent use. Only this package implements it, so that it can grow with the
// protocols.
type Transport interface {
	io.Closer
	// exchange sends one request and returns the result of its response. Its
	// errors are *Error, *TransportError, *ProtocolError and ctx's.
	exchange(ctx context.Context, r *request) (json.RawMessage, error)
}
