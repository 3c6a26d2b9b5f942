package sessionid

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Every feature has a bit: none is lost on the way to another replica.
func TestFeaturesHaveBits(t *testing.T) {
	all := steps.Features{}
	for _, f := range featureBits {
		assert.False(t, all.Has(f), "twice")
		all = all.With(f)
	}
	assert.Equal(t, steps.AllFeatures(), all)
	assert.LessOrEqual(t, len(featureBits), 8, "they are one byte")
}

// What was said is read again, each part for itself.
func TestTermsComeBack(t *testing.T) {
	list := []Terms{
		{}, {Revision: 3}, {Guest: true}, {Resumable: true}, {Level: slog.LevelDebug}, {Level: slog.LevelError + 4},
		{Apps: true}, {Trusted: true}, {3, steps.AllFeatures(), true, true, true, true, slog.LevelWarn},
	}
	for _, f := range featureBits {
		list = append(list, Terms{Features: f})
	}
	seen := make(map[string]bool)
	for _, want := range list {
		got, ok := Parse(want.Bytes())
		assert.True(t, ok)
		assert.Equal(t, want, got)
		assert.False(t, seen[string(want.Bytes())])
		seen[string(want.Bytes())] = true
	}
}

// What a newer program has made is not guessed at.
func TestNewerTermsAreNotRead(t *testing.T) {
	for _, state := range []string{"", "\x01\x00\x00", "\x01\x00\x00\x00\x00", "\x02\x00\x00\x00", "\x01\x04\x00\x00", "\x01\xff\x00\x00"} {
		_, ok := Parse([]byte(state))
		assert.False(t, ok, "%x", state)
	}
}
