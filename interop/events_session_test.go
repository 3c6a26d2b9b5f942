package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// post sends a message of a session of 2025-11-25 to the i-th server, and returns what has come until the response ends or breaks
// off.
func (s *shops) post(i int, session, message string) (header http.Header, body string) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.all[i].url(), strings.NewReader(message))
	if !assert.NoError(s.t, err) {
		return nil, ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, ""
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return resp.Header, string(raw)
}

// response finds the result of a call in what has come, or "".
func response(body string) string {
	for line := range strings.Lines(body) {
		var m struct {
			ID     int
			Result struct{ Content json.RawMessage }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &m) == nil && m.ID == 7 && m.Result.Content != nil {
			return string(m.Result.Content)
		}
	}
	return ""
}

// TestEventsOfSessionsWhileServersDie kills a server before and after each of its writes while a call of a session waits for a
// payment, between the order and when the payment has come. The client makes the call again, under its key, at another server, which
// has the payment.
func TestEventsOfSessionsWhileServersDie(t *testing.T) {
	onlyIfWanted(t, "starts servers again and again")
	t.Parallel()
	var died atomic.Int64
	t.Cleanup(func() { assert.Greater(t, died.Load(), int64(8), "servers have died") })
	for dies := range 20 {
		t.Run(fmt.Sprintf("write %d", dies), func(t *testing.T) {
			t.Parallel()
			s := newShops(t, dies/2+1, dies%2 == 1)
			header, _ := s.post(2, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			session := header.Get("Mcp-Session-Id")
			require.NotEmpty(t, session)
			s.post(2, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			said := make(chan string, 1)
			go func() {
				const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"buy","arguments":{},"_meta":{"io.github.mcpsaga/idempotencyKey":"one"}}}`
				for i := 0; t.Context().Err() == nil; i++ {
					_, body := s.post(i%3, session, call)
					if text := response(body); text != "" {
						said <- text
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}()
			deadline := time.After(time.Minute)
			for end := ""; end == ""; {
				select {
				case end = <-said:
					assert.Contains(t, end, "paid 5")
				case <-time.After(50 * time.Millisecond):
					s.agree() // again: it may not be known whether that has arrived
					s.deliver()
				case <-deadline:
					require.Fail(t, "the call has not ended")
				}
			}
			assert.Len(t, s.kept("order"), 1, "the call was made once")
			assert.Len(t, s.kept("pay"), 1)
			if resp, err := http.Get(s.all[0].url()); err == nil {
				resp.Body.Close()
			} else {
				died.Add(1)
			}
		})
	}
}
