package codec

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// The experiment: a client chooses text that ends up in the state, sees how long
// tokens become, and guesses a server's secret one character at a time: a right
// guess makes the text and the secret more alike, and the compressed state
// shorter. It is run twice, without padding, which only makes it slower. As a
// control the secret is in the state, where the attack must succeed; then in the
// secret section, where the package tells people to put it.
const (
	leakAlphabet = "0123456789abcdef"
	leakLength   = 6
	leakName     = `,"sessionKey":"`
	leakRounds   = 12
)

// guessSecret mounts the attack through measure, which returns how long a token
// becomes for a chosen text.
func guessSecret(measure func(chosen string) int) string {
	noise := rand.New(rand.NewPCG(4, 2))
	known := ""
	for range leakLength {
		totals := make([]int, len(leakAlphabet))
		for range leakRounds {
			// Other text around the guess shifts the roundings to whole bytes.
			var around [12]byte
			for i := range around {
				around[i] = byte('A' + noise.IntN(26))
			}
			for i, guess := range leakAlphabet {
				// The same characters in another order: what they cost as such
				// cancels out, and what remains is whether they match. The quote ends
				// the guess as it ends the secret.
				before, after := string(around[:])+leakName+known, `"`+string(around[:2+noise.IntN(3)])
				totals[i] += measure(before+string(guess)+after) - measure(before+after+string(guess))
			}
		}
		best := 0
		for i := range totals {
			if totals[i] < totals[best] {
				best = i
			}
		}
		known += leakAlphabet[best : best+1]
	}
	return known
}

// unpadded returns the size of what is encrypted, before padding. It compresses
// more thoroughly than the package ever does: the more matches an encoder finds, the
// better for the attack.
func unpadded(c *Codec, x *Contents) int {
	coding, body := c.zstd.compress(new(buffers), codingDict1, thorough(), x.State)
	return len(appendClaims(nil, coding, &x.Claims, x.Secret)) + len(body)
}

var thorough = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderDict(dictionary1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithAllLitEntropyCompression(true), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err)
	}
	return e
})

func leakyContents(chosen, secret string) *Contents {
	return &Contents{
		Claims: Claims{IssuedAt: mintedAt, ExpiresAt: mintedAt, Tool: "deploy"},
		State:  fmt.Appendf(nil, `{"at":"review","note":"%s"%s%s","retries":3,"owner":"ops@example.com"}`, chosen, leakName, secret),
	}
}

func separateContents(chosen, secret string) *Contents {
	x := leakyContents(chosen, "")
	x.Secret = []byte(secret)
	return x
}

func TestLengthsDoNotLeakSecrets(t *testing.T) {
	c := mintingCodec(t, Options{})
	secrets := []string{"7d03f9", "c41e8a", "0b5b26", "e92c70"}

	recovered := 0
	for _, secret := range secrets {
		got := guessSecret(func(chosen string) int { return unpadded(c, leakyContents(chosen, secret)) })
		if got == secret {
			recovered++
		}
		t.Logf("control: secret %s, guessed %s", secret, got)
	}
	require.Len(t, secrets, recovered, "the attack must work where it can, or this test proves nothing")

	guesses := map[string]bool{}
	for _, secret := range secrets {
		lengths := map[string]int{}
		got := guessSecret(func(chosen string) int {
			x := separateContents(chosen, secret)
			n := unpadded(c, x)
			lengths[chosen] = n
			return n
		})
		require.NotEqual(t, secret, got)
		guesses[got] = true
		// More than that: no length depends on the secret at all.
		for chosen, n := range lengths {
			require.Equal(t, n, unpadded(c, separateContents(chosen, "ffffff")))
		}
	}
	require.Len(t, guesses, 1, "the attack comes to the same result whatever the secret is")
}

func TestTokenLengthsAreTheSameForAllGuesses(t *testing.T) {
	c := mintingCodec(t, Options{})
	lengths := map[int]bool{}
	for _, first := range leakAlphabet {
		for _, second := range leakAlphabet {
			x := separateContents("AAAA"+leakName+string(first)+string(second), "7d03f9")
			token, err := c.Seal(Binding{}, mintedAt, x)
			require.NoError(t, err)
			lengths[len(token)] = true
		}
	}
	require.Len(t, lengths, 1)
}
