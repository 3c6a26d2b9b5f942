package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Turns at the same time are told apart, wherever their code has got to.
func TestWays(t *testing.T) {
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(ways[:]))), len(ways))
	assert.NotContains(t, ways, uintptr(0))
	runs := func(ways []uintptr) bool { return runsBy(ways) } // the caller is left out
	assert.False(t, runs(ways[:]))
	for way := range ways {
		_ = by[way](func() error {
			own, others := ways[way:way+1], slices.Delete(slices.Clone(ways[:]), way, way+1)
			for depth := range 30 { // more than is looked at in one go
				deeper(depth, func() {
					assert.True(t, runs(own))
					assert.False(t, runs(others))
				})
			}
			done := make(chan bool)
			go func() { done <- runs(ways[:]) }()
			assert.False(t, <-done)
			return nil
		})
	}
}

func deeper(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deeper(n-1, f)
}
