package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refused is how many turns a server has refused for a reason, as its metrics say.
func (p *served) refused(reason string) (n int) {
	resp, err := http.Get(p.metrics)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	var text strings.Builder
	require.NoError(p.t, resp.Write(&text))
	for _, found := range regexp.MustCompile(`(?m)^mcpsaga_turns_total\{.*mcpsaga_reason="`+reason+`".*\} (\d+)`).FindAllStringSubmatch(text.String(), -1) {
		one, err := strconv.Atoi(found[1])
		require.NoError(p.t, err)
		n += one
	}
	return n
}

// A replica with another keyset refuses the tokens of the others, as each of its own says and shows. A storm of such tokens, and of
// ones that are made up, keeps no call from being served.
func TestRunbookRefusedTokens(t *testing.T) {
	t.Parallel()
	s := newFleet(t, ledgers["SQLite"](t))
	a := s.serve()
	odd := filepath.Join(s.dir, "odd.json")
	s.ok("keys", "new", "--keyset", odd)
	b := s.serve("--keyset", odd)

	name := s.call(a, "order")
	raw, err := os.ReadFile(filepath.Join(s.dir, "state", "saga", "calls", name+".json"))
	require.NoError(t, err)
	var saved struct{ Position struct{ Token string } }
	require.NoError(t, json.Unmarshal(raw, &saved))
	require.NotEmpty(t, saved.Position.Token)
	explained, code := s.run("token", "explain", name, "--keyset", odd)
	assert.NotZero(t, code)
	assert.Contains(t, explained, "unknown_key")
	assert.NotEqual(t, a.get("/readyz"), b.get("/readyz"), "who has which keys")

	const each, clients = 250, 4
	var storm sync.WaitGroup
	for range clients {
		storm.Go(func() {
			for i := range each {
				token := saved.Position.Token
				if i%2 == 0 {
					token = token[:len(token)-20] + strings.Repeat("A", 20)
				}
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":%q,"completedSteps":[]}}`, token)
				resp, err := http.Post(b.url, "application/json", strings.NewReader(body))
				if assert.NoError(t, err) {
					_ = resp.Body.Close()
				}
			}
		})
	}
	for range 3 {
		s.done(s.answer(b, s.call(b, "order")))
	}
	storm.Wait()
	assert.Equal(t, each*clients, b.refused("unknown_key"))
	assert.Equal(t, each*clients, strings.Count(b.said(), "token.reason=unknown_key"))
	assert.NotContains(t, b.said(), saved.Position.Token[:40])

	mustRun(t, "cp", filepath.Join(s.dir, "keys.json"), odd)
	b.eventually(func() bool { return b.get("/readyz") == a.get("/readyz") }, "it does not load the right keys")
	s.done(s.answer(b, name))
}
