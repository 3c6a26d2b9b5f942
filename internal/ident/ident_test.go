package ident_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/ident"
)

func TestValid(t *testing.T) {
	for _, name := range []string{"a", "hold-hotel", "A_z.0:9/x", strings.Repeat("a", ident.Max)} {
		assert.True(t, ident.Valid(name), name)
	}
	for _, name := range []string{"", "a b", "a~2", "a#2", "ä", "a\n", "a\x00", "@", "[", "`", "{", strings.Repeat("a", ident.Max+1)} {
		assert.False(t, ident.Valid(name), "%q", name)
	}
	assert.Contains(t, ident.Rule, fmt.Sprintf("1 to %d characters", ident.Max))
}
