package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A response that is too large for the ledger is sent once. Who lost it learns from the same request that
// the saga has ended.
func TestLargeResponsesAreSentOnce(t *testing.T) {
	s := new(seats)
	r := newRig(t, server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: []saga.Definition{largeTool(s)}})
	call := func() (int, string) {
		return r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"large","arguments":{},"_meta":{"idempotencyKey":"k"}}}`, func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") })
	}
	_, body := call()
	assert.Contains(t, body, "xxxxx")
	_, body = call()
	assert.Contains(t, body, "too large to be kept")
	assert.NotContains(t, body, "-32603")
	assert.NotContains(t, r.log.take(), "level=ERROR")
	held, _ := s.now()
	assert.Equal(t, 1, held)
}

// In a session, where a response is kept before it is sent, the client learns that the tool has ended well.
func TestLargeResultOfASession(t *testing.T) {
	s := new(seats)
	r := newRig(t, server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: []saga.Definition{largeTool(s)}})
	c := r.connect("2025-11-25", everything)
	response := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large","arguments":{}}}`)
	assert.Contains(t, response, "has ended well, and what it did stays")
	held, _ := s.now()
	assert.Equal(t, 1, held)
}

// largeTool holds a seat, and returns more than a ledger keeps.
func largeTool(s *seats) saga.Definition {
	hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "large", Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Do(r, hold, "7")
			return strings.Repeat("x", 9<<20), err
		},
	}
}
