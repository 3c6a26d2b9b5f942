package tasks

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMarksDoNotGrow: a mark that has only just fitted into the record can still say that something
// behind may be undone.
func TestMarksDoNotGrow(t *testing.T) {
	m := mark{why: errCancelled, position: []byte("here")}
	written := m.encode()
	m.behind = true
	changed := m.on(written)
	assert.Len(t, changed, len(written))
	read, err := decodeMark(changed)
	require.NoError(t, err)
	assert.Equal(t, m, read)
	assert.NotEmpty(t, (&mark{}).encode())
}

// TestMarksOfBefore: marks were three bytes shorter once, and such are in records.
func TestMarksOfBefore(t *testing.T) {
	for text, want := range map[string]mark{
		"0101030500": {why: errUndone}, "0101010500": {why: errCancelled}, "0101020500": {why: errOver}, "0500": {},
	} {
		written, err := hex.DecodeString(text)
		require.NoError(t, err)
		read, err := decodeMark(written)
		require.NoError(t, err)
		assert.Equal(t, want, read, text)
	}
}
