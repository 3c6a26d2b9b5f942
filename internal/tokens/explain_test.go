package tokens_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func TestExplainWithoutKeys(t *testing.T) {
	k, other := newKeyset(t), newCodec(t, newKeyset(t), tokens.Options{MaxToken: tokens.HardMaxToken})
	token := seal(t, newCodec(t, k, tokens.Options{}), alice, sample("{}"))
	x := other.Explain(alice, noon, token, nil)
	require.Equal(t, tokens.Explanation{Version: "1", KeyID: k.Primary().ID, Reason: tokens.ReasonUnknownKey, Detail: x.Detail}, x)
	require.True(t, strings.HasPrefix(token, k.Primary().Prefix))

	for token, reason := range map[string]tokens.Reason{
		"": tokens.ReasonMalformed, "2AAAA": tokens.ReasonVersion, "1A A": tokens.ReasonMalformed, "1AAAA": tokens.ReasonMalformed,
		"1" + strings.Repeat("A", 40): tokens.ReasonUnknownKey, strings.Repeat("1", tokens.HardMaxToken+1): tokens.ReasonTooLong,
	} {
		require.Equal(t, reason, other.Explain(alice, noon, token, nil).Reason)
	}
}

func TestExplain(t *testing.T) {
	k := newKeyset(t)
	c := newCodec(t, k, tokens.Options{})
	x := sample(smallState)
	x.Secret = []byte("correct horse battery staple")
	token := seal(t, c, alice, x)

	good := c.Explain(alice, noon, token, nil)
	require.Zero(t, good.Reason)
	require.Empty(t, good.Detail)
	require.Equal(t, k.Primary(), *good.Key)
	require.Equal(t, x.Claims, *good.Claims)
	layout := c.Layout(alice, noon, token)
	require.Equal(t, "zstd dictionary 2", layout.Coding)
	require.Positive(t, layout.Body)
	require.Less(t, layout.Body, len(smallState))
	require.Positive(t, layout.Padding)
	require.NotContains(t, fmt.Sprintf("%+v", good), "horse")

	var state, secret, kept []byte
	require.Equal(t, good, c.Explain(alice, noon, token, func(all *tokens.Contents) {
		state, secret, kept = all.State, []byte(string(all.Secret)), all.Secret
	}))
	require.Equal(t, smallState, string(state))
	require.Equal(t, string(x.Secret), string(secret))
	require.Equal(t, make([]byte, len(secret)), kept, "wiped")
	c.Explain(tokens.Binding{}, noon, token, func(*tokens.Contents) { t.Error("a token that is not authentic is not shown") })

	state = nil
	late := c.Explain(alice, noon.Add(time.Hour), token, func(all *tokens.Contents) { state = all.State })
	require.Equal(t, tokens.ReasonExpired, late.Reason)
	require.Contains(t, late.Detail, "expired at 2026-11-20 12:10:00")
	require.Equal(t, good.Claims, late.Claims, "shown although expired")
	require.Equal(t, smallState, string(state))

	foreign := c.Explain(tokens.Binding{}, noon, token, nil)
	require.Equal(t, tokens.ReasonAuthentication, foreign.Reason)
	require.Equal(t, k.Primary().ID, foreign.KeyID)
	require.NotNil(t, foreign.Key)
	require.Nil(t, foreign.Claims)

	small := newCodec(t, k, tokens.Options{MaxPlaintext: 100}).Explain(alice, noon, token, func(*tokens.Contents) { t.Error("what does not decode is not shown") })
	require.Equal(t, tokens.ReasonTooLarge, small.Reason)
	require.Equal(t, x.Claims, *small.Claims)

	require.Equal(t, tokens.ReasonMalformed, c.Explain(alice, noon, "1", nil).Reason)
}
