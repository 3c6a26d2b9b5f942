package bounds

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clocked is a gate whose time is set.
func clocked(c Config) (*Gate, *time.Time) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	c.Now = func() time.Time { return now }
	return New(c), &now
}

func (g *Gate) comes(account, tool string) string {
	met, _ := g.allow(account, tool)
	return met
}

// A caller may come as often as its rate says, and hears when it may come again. Others do not wait for it.
func TestRateOfACaller(t *testing.T) {
	g, now := clocked(Config{Caller: Rate{3, time.Minute}})
	for range 3 {
		assert.Empty(t, g.comes("a", ""))
	}
	for range 100 { // what is refused does not count
		met, wait := g.allow("a", "")
		assert.Equal(t, CallerRate, met)
		assert.Equal(t, 20*time.Second, wait)
	}
	assert.Empty(t, g.comes("b", ""))
	*now = now.Add(20*time.Second - time.Millisecond)
	assert.Equal(t, CallerRate, g.comes("a", ""))
	*now = now.Add(time.Millisecond)
	assert.Empty(t, g.comes("a", ""), "when it was told to")
	assert.Equal(t, CallerRate, g.comes("a", ""))
	*now = now.Add(-time.Hour)
	assert.Equal(t, CallerRate, g.comes("a", ""), "a clock that is set back gives nothing")
	assert.Empty(t, g.comes("c", ""))
	*now = now.Add(time.Hour)
	for range 3 {
		assert.Empty(t, g.comes("c", ""))
	}
	assert.Equal(t, CallerRate, g.comes("c", ""))
}

// The rate of a tool is for each caller. What one of both rates refuses does not count for the other.
func TestRateOfATool(t *testing.T) {
	g, now := clocked(Config{Caller: Rate{10, time.Hour}, Tools: map[string]Rate{"dear": {1, time.Minute}}})
	assert.Empty(t, g.comes("a", "dear"))
	for range 50 {
		assert.Equal(t, ToolRate, g.comes("a", "dear"))
	}
	assert.Empty(t, g.comes("b", "dear"))
	for range 9 {
		assert.Empty(t, g.comes("a", "cheap"))
	}
	assert.Equal(t, CallerRate, g.comes("a", "cheap"))
	*now = now.Add(time.Minute)
	assert.Equal(t, CallerRate, g.comes("a", "dear"))
	*now = now.Add(5 * time.Minute)
	assert.Empty(t, g.comes("a", "dear"))
}

// Callers and names that are made up take no more memory than is set aside, and who comes as often as it may is not
// forgotten for them.
func TestBucketsAreBounded(t *testing.T) {
	g, now := clocked(Config{Caller: Rate{2, time.Hour}, Tools: map[string]Rate{"dear": {100, time.Hour}}})
	assert.Empty(t, g.comes("a", ""))
	assert.Empty(t, g.comes("a", ""))
	for i := range 100_000 {
		require.Empty(t, g.comes(fmt.Sprint("made up ", i), fmt.Sprint("tool ", i)))
		if i%1000 == 0 {
			require.Equal(t, CallerRate, g.comes("a", ""))
		}
		*now = now.Add(time.Millisecond)
	}
	assert.LessOrEqual(t, len(g.buckets.young)+len(g.buckets.older), kept)
	for k := range g.buckets.young {
		require.Empty(t, k.tool, "a tool that has no rate has no bucket")
	}
}
