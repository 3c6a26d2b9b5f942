package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tmaxmax/go-sse"
)

// errNoResponse: a stream ended too early.
var errNoResponse = errors.New("the server's stream of events ended without the response")

// readEvents returns the result in a stream of events, which servers may send
// instead of a JSON object (MCP 2025-11-25, basic/transports, sending messages to the
// server). The dialects spoken here need no notifications.
func readEvents(ctx context.Context, stream io.Reader, limit int64, id uint64) (json.RawMessage, error) {
	rest := &io.LimitedReader{R: stream, N: limit + 1}
	// The limit is of the whole stream; events end with it, not before.
	for event, err := range sse.Read(rest, &sse.ReadConfig{MaxEventSize: int(limit) + 2}) {
		if err != nil {
			if rest.N > 0 {
				return nil, classify(ctx, fmt.Errorf("the server's stream of events: %w", err), true)
			}
			break
		}
		var message struct{ Method string }
		if event.Data == "" || json.Unmarshal([]byte(event.Data), &message) == nil && message.Method != "" {
			continue
		}
		return parseResponse([]byte(event.Data), id)
	}
	if rest.N <= 0 {
		return nil, tooMuch(limit, "bytes in an answer")
	}
	return nil, classify(ctx, errNoResponse, true)
}
