package engine_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Levels have MCP's names, and each name is that of one level. What is between two of
// them has the name of the less severe one.
func TestLogLevelsHaveNames(t *testing.T) {
	for name, level := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "notice": 2, "warning": slog.LevelWarn,
		"error": slog.LevelError, "critical": 12, "alert": 16, "emergency": 20,
	} {
		assert.Equal(t, name, engine.LevelName(level))
		assert.Equal(t, name, engine.LevelName(level+1))
		back, ok := engine.ParseLevel(name)
		assert.True(t, ok)
		assert.Equal(t, level, back)
	}
	assert.Equal(t, "debug", engine.LevelName(-100))
	assert.Equal(t, "emergency", engine.LevelName(100))
	_, ok := engine.ParseLevel("loud")
	assert.False(t, ok)
}
