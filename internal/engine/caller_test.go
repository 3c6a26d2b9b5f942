package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Turns that the server takes by itself get back who it was. What tokens are bound to never changes.
func TestCallerOfABinding(t *testing.T) {
	for want, c := range map[string]Caller{"": {}, "\x00\x03ann\x00": {Subject: "ann"}, "\x04http\x03ann\x03app": {Issuer: "http", Subject: "ann", Client: "app"}, "\x00\x00\x02\x00\xff": {Client: "\x00\xff"}} {
		assert.Equal(t, want, c.Binding())
		assert.Equal(t, c, CallerOfBinding(want))
		c.Scopes, c.Claims = []string{"tools"}, map[string]string{"team": "blue"}
		assert.Equal(t, want, c.Binding(), "what a request may do is not who it is")
	}
	for _, wrong := range []string{"\x05ann", "\x03ann", "\xff"} {
		assert.Equal(t, Caller{}, CallerOfBinding(wrong), "never somebody else")
	}
}

func TestCallersHaveLimits(t *testing.T) {
	for name, c := range map[string]Caller{
		"nobody's scopes": {Scopes: []string{"tools"}}, "nobody's claims": {Claims: map[string]string{"name": "value"}},
		"scopes": {Subject: "ann", Scopes: make([]string, MaxScopes+1)}, "bytes of scopes": {Subject: "ann", Scopes: []string{strings.Repeat("s", MaxScopeBytes), "s"}},
		"claims": {Subject: "ann", Claims: map[string]string{"name": strings.Repeat("c", MaxClaimBytes-3)}},
	} {
		assert.Error(t, c.Check(), name)
	}
	most := Caller{Client: "app", Scopes: make([]string, MaxScopes), Claims: map[string]string{"name": strings.Repeat("c", MaxClaimBytes-4)}}
	most.Scopes[0] = strings.Repeat("s", MaxScopeBytes)
	assert.NoError(t, most.Check())
}
