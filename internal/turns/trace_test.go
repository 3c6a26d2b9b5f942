package turns

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
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
	}
}

// The trace of the first turn goes with the token, and none makes it no longer.
func TestTracesGoWithTokens(t *testing.T) {
	r := newRunner(t, leakMachine(func(leakArgs) struct{} { return struct{}{} }))
	trace, ok := ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.True(t, ok)
	q := Request{Policy: Carried, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "t"), Arguments: json.RawMessage(`{"key":"value"}`)}
	for want, claim := range map[Trace][]byte{{}: nil, trace: trace[:]} {
		q.Trace = want
		begun, err := r.Call(t.Context(), q)
		require.NoError(t, err)
		x, _, err := r.Codec.OpenAnyTime(tokens.Binding{Purpose: q.Policy.Purpose}, time.Now(), begun.Token)
		require.NoError(t, err)
		assert.Equal(t, claim, x.Claims.Trace)
		later := Request{Policy: Carried, Token: begun.Token, Trace: Trace{1}}
		_, err = r.open(t.Context(), &later, false)
		require.NoError(t, err)
		assert.Equal(t, want, later.Trace)
	}
}
