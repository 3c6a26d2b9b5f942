package dialect

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A fault of the server's own code fails one request, and not all that the process has.
func TestAPanicFailsOneRequest(t *testing.T) {
	var log bytes.Buffer
	h := &Host{Log: slog.New(slog.NewTextHandler(&log, nil))}
	result, rerr := h.Dispatch(t.Context(), &Exchange{Message: &wire.Message{Method: "tools/call"}}, func(context.Context, *Exchange) (json.RawMessage, *wire.Error) {
		panic("a fault")
	})
	assert.Nil(t, result)
	assert.Equal(t, Fault(), rerr)
	for _, part := range []string{"ERROR", "tools/call", "a fault", "dispatch_test.go"} {
		assert.Contains(t, log.String(), part)
	}
}
