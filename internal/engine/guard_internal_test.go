package engine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Turns at the same time are told apart, wherever their code has got to.
func TestMarks(t *testing.T) {
	_, runs := marksHere(0)
	assert.False(t, runs)
	seen := make(map[marks]int)
	for range 256 {
		tc := new(Turn)
		tc.mark(func() {
			here, runs := marksHere(0)
			assert.True(t, runs)
			assert.Equal(t, tc.guard.marks, here)
			assert.NotContains(t, here, uintptr(0))
			seen[here]++
			for depth := range 25 { // more than are looked at in one go
				deeper(depth, func() {
					there, _ := marksHere(0)
					assert.Equal(t, here, there)
				})
			}
			done := make(chan bool)
			go func() {
				_, runs := marksHere(0)
				done <- runs
			}()
			assert.False(t, <-done)
		})
	}
	assert.Len(t, seen, 256)
}

//go:noinline
func deeper(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deeper(n-1, f)
	runtime.KeepAlive(f)
}
