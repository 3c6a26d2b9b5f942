package saga_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Levels have MCP's names, and each name is that of one level.
func TestLogLevelsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for level := saga.LogLevel(0); level < 8; level++ {
		names[level.String()] = true
		back, ok := saga.ParseLogLevel(level.String())
		assert.True(t, ok)
		assert.Equal(t, level, back)
	}
	assert.Len(t, names, 8)
	_, ok := saga.ParseLogLevel("loud")
	assert.False(t, ok)
}
