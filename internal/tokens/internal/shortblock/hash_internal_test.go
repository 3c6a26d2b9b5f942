package shortblock

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A hash that leaves a byte out finds the same matches, more slowly.
func TestHashDependsOnTheBytesThatMatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, bits := range []uint{fewBits, manyBits, farBits} {
		var differs [8]int
		for range 1000 {
			v := random.Uint64()
			for i := range differs {
				if other := v ^ 1<<(8*i+random.IntN(8)); hash(v, bits) != hash(other, bits) {
					differs[i]++
				}
			}
		}
		for i, n := range differs {
			if i < minLength {
				require.Greater(t, n, 700, "byte %d, %d bits", i, bits)
			} else {
				require.Zero(t, n, "byte %d, %d bits", i, bits)
			}
		}
	}
}
