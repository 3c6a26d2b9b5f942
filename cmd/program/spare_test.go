package program

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The collector of a small server has some room, unless an operator has tuned it.
func TestSpareHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	goal := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NextGC
	}
	without := goal()
	spare := spareHeap()
	assert.Greater(t, goal(), without+20<<20)
	runtime.KeepAlive(spare)
	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "off")
			assert.Nil(t, spareHeap())
		})
	}
}
