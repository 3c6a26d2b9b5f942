package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBuffersAreWiped(t *testing.T) {
	var m BufferPool
	room := m.Get()
	response := append(*room, "a secret of somebody"...)
	m.Put(room, response)
	assert.NotContains(t, string(response), "s")

	// Also what was begun and then replaced by something shorter.
	room = m.Get()
	begun := append(*room, "a secret of somebody"...)
	m.Put(room, append((*room)[:0], "an error"...))
	assert.NotContains(t, string(begun), "s")
	assert.Empty(t, *m.Get())
}

func TestLargeBuffersAreNotKept(t *testing.T) {
	var m BufferPool
	for range 100 {
		room := m.Get()
		m.Put(room, append(*room, make([]byte, largestKept+1)...))
		require.LessOrEqual(t, cap(*m.Get()), largestKept)
	}
}
