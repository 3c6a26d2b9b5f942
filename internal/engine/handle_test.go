package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// A handle is written in one way only: who compares handles compares events.
func TestHandlesHaveOneForm(t *testing.T) {
	mark, place := []byte("mark"), engine.Place{1, 2, 3}
	handle := place.Handle(mark)
	read, _, ok := engine.ReadHandle(handle, mark)
	assert.True(t, ok)
	assert.Equal(t, place, read)
	for name, other := range map[string]string{
		"a line break": handle[:5] + "\n" + handle[5:], "padding": handle + "=", "shorter": handle[:31], "another mark": place.Handle([]byte("other")),
		"another place": engine.Place{9}.Handle(mark)[:22] + handle[22:],
	} {
		_, _, ok := engine.ReadHandle(other, mark)
		assert.False(t, ok, name)
	}
}
