package tokens_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// corpus returns the states of testdata/corpus by name: forms, texts in several languages, like rows,
// diffs, identifiers, and what has been compressed already. No dictionary was made of them.
func corpus(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "corpus", "*.json"))
	require.NoError(t, err)
	states := make(map[string]string)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		states[strings.TrimSuffix(filepath.Base(path), ".json")] = strings.TrimSuffix(string(data), "\n")
	}
	require.Len(t, states, 13)
	return states
}

// No state takes a longer token than a JWE of it does that is deflated and names its key, though a JWE has
// neither claims nor padding.
func TestTokensAreNoLongerThanDeflatedJWE(t *testing.T) {
	c := newCodec(t, newKeyset(t), tokens.Options{Audience: "https://tools.example.com"})
	jwe := peers[3]
	require.Equal(t, "jwe-def", jwe.name)
	for name, state := range corpus(t) {
		token := seal(t, c, alice, sample(state))
		x := c.Layout(alice, noon, token)
		length, other := len(token), jwe.length(state)
		t.Logf("%-12s %5d bytes, %4d characters, %.3f of a JWE (%s, %d bytes of padding)", name, len(state), length, float64(length)/float64(other), x.Coding, x.Padding)
		if name == "blob" { // What is as short as it can be is padded nevertheless, here by 4 %.
			length = 1 + unpaddedBase64(x.Sealed-x.Padding)
		}
		require.LessOrEqual(t, length, other, name)
	}
}
