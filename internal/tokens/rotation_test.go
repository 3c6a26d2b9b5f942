package tokens_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func TestRotation(t *testing.T) {
	one := newKeyset(t)
	old := one.Primary().ID
	c := newCodec(t, one, tokens.Options{})
	before := seal(t, c, alice, sample("{}"))

	two, id, err := one.Add(codec.AES256CTRHMACSHA256)
	require.NoError(t, err)
	require.Len(t, one.Keys(), 1, "the original does not change")
	require.Equal(t, old, two.Primary().ID, "a new key is not primary")
	c.SetKeyset(two)
	require.True(t, strings.HasPrefix(seal(t, c, alice, sample("{}")), one.Primary().Prefix))

	three, err := two.Promote(id)
	require.NoError(t, err)
	c.SetKeyset(three)
	c.SetKeyset(nil)
	require.Equal(t, three, c.Keyset())
	after := seal(t, c, alice, sample("{}"))
	require.True(t, strings.HasPrefix(after, three.Primary().Prefix))
	for _, token := range []string{before, after} {
		_, err = c.Open(alice, noon, token)
		require.NoError(t, err)
	}
	behind := newCodec(t, two, tokens.Options{})
	_, err = behind.Open(alice, noon, after)
	require.NoError(t, err, "a replica one stage behind opens")

	four, err := three.Disable(old)
	require.NoError(t, err)
	c.SetKeyset(four)
	_, err = c.Open(alice, noon, before)
	requireRejected(t, err, tokens.ReasonUnknownKey)
	require.False(t, c.Explain(alice, noon, before, nil).Key.Enabled)

	back, err := four.Enable(old)
	require.NoError(t, err)
	c.SetKeyset(back)
	_, err = c.Open(alice, noon, before)
	require.NoError(t, err)

	five, err := four.Destroy(old)
	require.NoError(t, err)
	require.Len(t, five.Keys(), 1)
	c.SetKeyset(five)
	_, err = c.Open(alice, noon, before)
	requireRejected(t, err, tokens.ReasonUnknownKey)
	require.Nil(t, c.Explain(alice, noon, before, nil).Key)
	_, err = c.Open(alice, noon, after)
	require.NoError(t, err)
}
