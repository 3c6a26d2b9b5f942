package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHTTP posts bodies of any content: every answer is JSON with a status that
// says whose fault it was, which is never the server's.
func FuzzHTTP(f *testing.F) {
	for _, pair := range transcript(f) {
		f.Add([]byte(pair[0]))
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"","completedSteps":[{"stepId":"a","error":{"code":1,"message":""}}]}}`))
	handler := newStdio(f).Handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Less(t, w.Code, 500)
		if w.Code != http.StatusAccepted {
			require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
			require.NotContains(t, w.Body.String(), `"code":-32603`)
		}
	})
}
