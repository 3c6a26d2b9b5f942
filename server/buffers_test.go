package server

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/stretchr/testify/require"
)

func newPlain(t *testing.T) *Server {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := New(Options{Keys: keys, Tools: []saga.Definition{complextool.Tool}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

// holder is a writer whose client has gone while it was at work on what it got.
type holder struct {
	http.ResponseWriter
	got []byte
}

func (h *holder) Write(b []byte) (int, error) {
	h.got = b
	return 0, errors.New("the client has gone")
}

func TestBuffersThatAFailedWriterMayHoldAreNotUsedAgain(t *testing.T) {
	s := newPlain(t)
	handler := s.Handler()
	mine := map[string]string{
		"saga":      `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"mine"}}`,
		"stateless": `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
	}
	for name, body := range mine {
		for range 20 { // a pool may lose what it holds
			post := func(w http.ResponseWriter) {
				r := httptest.NewRequest(http.MethodPost, Endpoint, strings.NewReader(body))
				r.Host = "localhost"
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				if name == "stateless" {
					r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
					r.Header.Set("Mcp-Method", "tools/list")
				}
				handler.ServeHTTP(w, r)
			}
			h := &holder{ResponseWriter: httptest.NewRecorder()}
			post(h)
			before := string(h.got)
			require.Contains(t, before, `"id":1`, name)
			other := httptest.NewRecorder()
			post(other)
			require.Equal(t, before, other.Body.String(), name)
			require.Equal(t, before, string(h.got), name)
			b := s.buffers.Get()
			_ = append((*b)[:0], "what somebody else is told"...)
			require.Equal(t, before, string(h.got), name)
		}
	}
}
