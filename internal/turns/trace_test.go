package turns

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTrace(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for in, want := range map[string]string{
		good: good,
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-will-be": good,
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":              good,
		"": "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": "",
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more":  "",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01":      "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":      "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":      "",
		"00-0af7651916cd43dd8448eb211c80319cb7ad6b7169203331--01":      "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g":      "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331":         "",
		strings.Repeat("-", 55): "",
		good[:54] + "é":         "",
	} {
		trace, ok := ParseTrace(in)
		assert.Equal(t, want != "", ok, in)
		assert.Equal(t, want, trace.String(), in)
		assert.Equal(t, trace, traceOf(trace.claim()), in)
	}
	assert.Nil(t, Trace{}.claim(), "no claim, so the token is as without")
	assert.Zero(t, traceOf([]byte("too short")))
}
