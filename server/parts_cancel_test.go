package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// The token for the next part also cancels the saga, for whoever got it and for nobody else: also a
// short one, which is a name in the ledger.
func TestResumeTokensCancel(t *testing.T) {
	for _, short := range []bool{false, true} {
		t.Run(fmt.Sprintf("short: %t", short), func(t *testing.T) {
			held := map[saga.Key]bool{}
			hold := holds("hold", held)
			tool := saga.Flow[struct{}, string]{
				Info: saga.Info{Name: "pages", Effects: []saga.Declared{hold}, Yields: true, ShortTokens: short},
				Run: func(r *saga.Run, _ struct{}) (string, error) {
					if _, err := saga.Do(r, hold, "7"); err != nil {
						return "", err
					}
					return "the end", r.Yield(content.Text{Text: "a part"})
				},
			}
			store := ledger.NewMemory(ledger.MemoryOptions{})
			t.Cleanup(func() { _ = store.Close() })
			r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{tool}, Authenticate: users})
			send := func(user, method string, params object) string {
				raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
				require.NoError(t, err)
				_, body := r.do(http.MethodPost, "/mcp", string(raw), func(q *http.Request) { q.Header.Set("User", user) })
				return body
			}
			var first struct {
				Result struct{ NextResumeToken string }
			}
			require.NoError(t, json.Unmarshal([]byte(r.user("ann", "2025-11-25").ask(methodCall(1, "tools/call", `{"name":"pages"}`))), &first))
			token := first.Result.NextResumeToken
			require.NotEmpty(t, token)
			require.Len(t, held, 1)
			assert.Contains(t, send("bob", "tools/cancelSaga", object{"sagaToken": token}), `"code":-32602,"message":"the saga token is not valid here`)
			assert.Len(t, held, 1)
			assert.Equal(t, []string{"hold"}, undone(t, send("ann", "tools/cancelSaga", object{"sagaToken": token})))
			assert.Empty(t, held)
		})
	}
}
