package tasks

import (
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
