package tokens_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func TestInspect(t *testing.T) {
	k := newKeyset(t)
	token := seal(t, newCodec(t, k, tokens.Options{}), alice, sample("{}"))
	in, err := tokens.Inspect(token)
	require.NoError(t, err)
	require.Equal(t, tokens.Inspection{Version: "1", KeyID: k.Primary().ID, Length: len(token), Sealed: (len(token) - 1) * 3 / 4}, in)
	require.True(t, strings.HasPrefix(token, k.Primary().Prefix))

	for token, reason := range map[string]tokens.Reason{
		"": tokens.ReasonMalformed, "2AAAA": tokens.ReasonVersion, "1A A": tokens.ReasonMalformed, "1AAAA": tokens.ReasonMalformed,
		"1" + strings.Repeat("A", 40): tokens.ReasonUnknownKey, strings.Repeat("1", tokens.HardMaxToken+1): tokens.ReasonTooLong,
	} {
		in, err := tokens.Inspect(token)
		requireRejected(t, err, reason)
		require.Equal(t, len(token), in.Length)
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
	require.Equal(t, smallState, string(good.State))
	require.Equal(t, len(smallState), good.StateLen)
	require.Equal(t, len(x.Secret), good.SecretLen)
	require.Equal(t, "zstd dictionary 2", good.Coding)
	require.Positive(t, good.BodyLen)
	require.Less(t, good.BodyLen, good.StateLen)
	require.Positive(t, good.PaddingLen)
	require.NotContains(t, fmt.Sprintf("%+v %s", good, good.State), "horse")

	var state, secret, kept []byte
	require.Equal(t, good, c.Explain(alice, noon, token, func(all *tokens.Contents) {
		state, secret, kept = all.State, []byte(string(all.Secret)), all.Secret
	}))
	require.Equal(t, smallState, string(state))
	require.Equal(t, string(x.Secret), string(secret))
	require.Equal(t, make([]byte, len(secret)), kept, "wiped")
	c.Explain(tokens.Binding{}, noon, token, func(*tokens.Contents) { t.Error("a token that is not authentic is not shown") })

	late := c.Explain(alice, noon.Add(time.Hour), token, nil)
	require.Equal(t, tokens.ReasonExpired, late.Reason)
	require.Contains(t, late.Detail, "expired at 2026-11-20 12:10:00")
	require.Equal(t, good.Claims, late.Claims, "shown although expired")
	require.Equal(t, good.State, late.State)

	foreign := c.Explain(tokens.Binding{}, noon, token, nil)
	require.Equal(t, tokens.ReasonAuthentication, foreign.Reason)
	require.Equal(t, k.Primary().ID, foreign.KeyID)
	require.NotNil(t, foreign.Key)
	require.Nil(t, foreign.Claims)
	require.Nil(t, foreign.State)

	small := newCodec(t, k, tokens.Options{MaxPlaintext: 100}).Explain(alice, noon, token, nil)
	require.Equal(t, tokens.ReasonTooLarge, small.Reason)
	require.Equal(t, x.Claims, *small.Claims)
	require.Nil(t, small.State)

	require.Equal(t, tokens.ReasonMalformed, c.Explain(alice, noon, "1", nil).Reason)
}
