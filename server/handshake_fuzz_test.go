package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHandshakeHTTP posts bodies of any content to a session: every answer is JSON
// or a stream of it, with a status that says whose fault it was, and the session
// goes on.
func FuzzHandshakeHTTP(f *testing.F) {
	for _, seed := range []string{
		pingMessage, listTools, toolCall(1, "sum", `{}`), toolCall(1, "ask", `{"what":7}`), initializeMessage("2025-03-26", everything),
		`[` + pingMessage + `,7,{"jsonrpc":"2.0","id":1,"result":{}}]`, `{"jsonrpc":"2.0","id":1,"error":7}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"notes://7"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"name","value":"x"}}}`,
	} {
		f.Add([]byte(seed), "GET", "p1_0")
	}
	srv := newStdio(f, legacyDefinitions()...)
	f.Cleanup(srv.Close)
	handler := srv.Handler()
	send := func(method, session, last string, body []byte) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost/mcp", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		// Nobody answers here, so nothing is to be asked.
		r.Header.Set("Accept", "application/json")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		if last != "" {
			r.Header.Set("Accept", "text/event-stream")
			r.Header.Set("Last-Event-Id", last)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	f.Fuzz(func(t *testing.T, body []byte, method, last string) {
		session := send(http.MethodPost, "", "", []byte(initializeMessage("2025-03-26", everything))).Header().Get("Mcp-Session-Id")
		require.NotEmpty(t, session)
		w := send(http.MethodPost, session, "", body)
		require.Less(t, w.Code, 500)
		if w.Code != http.StatusAccepted {
			require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
			require.NotContains(t, w.Body.String(), `"code":-32603`)
		}
		if method == http.MethodGet && last != "" && !strings.HasPrefix(last, "g_") {
			w = send(http.MethodGet, session, last, nil)
			require.Less(t, w.Code, 500)
		}
		require.Equal(t, 200, send(http.MethodPost, session, "", []byte(pingMessage)).Code)
		require.Equal(t, http.StatusNoContent, send(http.MethodDelete, session, "", nil).Code)
	})
}
