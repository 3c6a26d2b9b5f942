package tokens_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// The states of testdata/heldout are about subjects that were drawn by lot or written
// before the dictionary, and no part of what it was made of. They show what to expect of states that nobody tuned anything for.
//
// The bounds are the mean length of a token as a part of what the format of the TypeScript
// SDK takes. A small state that is full of names and numbers has little that any dictionary
// knows, and 80 bytes of claims, nonce and tag are a third of its token.
func TestHeldOutSizes(t *testing.T) {
	c := newCodec(t, newKeyset(t), tokens.Options{Audience: "https://tools.example.com"})
	for _, group := range []struct {
		pattern string
		states  int
		most    float64
	}{
		{"*-clinic", 1, 0.47}, {"*-printer", 1, 0.47}, {"medium-*", 5, 0.48}, {"small-*", 5, 0.53},
	} {
		paths, err := filepath.Glob(filepath.Join("testdata", "heldout", group.pattern+".json"))
		require.NoError(t, err)
		require.Len(t, paths, group.states)
		sum := 0.0
		for _, path := range paths {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			state := strings.TrimSuffix(string(data), "\n")
			token := seal(t, c, alice, sample(state))
			for _, p := range peers {
				require.Less(t, len(token), p.length(state), "%s: shorter than %s", path, p.name)
			}
			ratio := float64(len(token)) / float64(peers[0].length(state))
			sum += ratio
			t.Logf("%-18s %4d bytes (flate %.2f), %4d characters: %.3f of %s, %.3f of %s", strings.TrimSuffix(filepath.Base(path), ".json"), len(state),
				float64(flated(state))/float64(len(state)), len(token), ratio, peers[0].name, float64(len(token))/float64(peers[3].length(state)), peers[3].name)
		}
		mean := sum / float64(len(paths))
		t.Logf("%s: %.3f on average, at most %.2f", group.pattern, mean, group.most)
		require.LessOrEqual(t, mean, group.most, group.pattern)
	}
}
