package tokens

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What somebody can learn from lengths by an attack is tested in package server. Here
// is why: what a token takes before padding is the sum of what its parts take, and the
// parts that are not compressed take what they have.

const leakName = `,"sessionKey":"`

// unpadded returns the size of what is encrypted, before padding.
func unpadded(t testing.TB, c *Codec, x *Contents) int {
	token, err := c.Seal(Binding{}, mintedAt, x)
	require.NoError(t, err)
	layout := c.Layout(Binding{}, mintedAt, token)
	return layout.Sealed - layout.Padding
}

// leakyContents has what a client chose in the state, and a secret where put puts it.
func leakyContents(chosen, secret string, put func(x *Contents, secret []byte)) *Contents {
	x := &Contents{
		Claims: Claims{IssuedAt: mintedAt, ExpiresAt: mintedAt, Tool: "deploy"},
		State:  fmt.Appendf(nil, `{"at":"review","note":"%s","retries":3,"owner":"ops@example.com"}`, chosen),
	}
	put(x, fmt.Appendf(nil, `{"at":"review"%s%s"}`, leakName, secret))
	return x
}

func TestPartsDoNotTellOfEachOther(t *testing.T) {
	c := mintingCodec(t, Options{})
	secrets := []string{"7d03f9b2", "c41e8a07", "ffffffff", "0b5b26fe"}
	chosen := []string{"", "x", "7d03f9b2", leakName + "7d03f9b2", leakName + "c41e8a07", "ffffffff"}
	differences := func(put func(x *Contents, secret []byte)) (list [][]int) {
		for _, secret := range secrets {
			var row []int
			for _, text := range chosen {
				row = append(row, unpadded(t, c, leakyContents(text, secret, put))-unpadded(t, c, leakyContents(text, secrets[0], put)))
			}
			list = append(list, row)
		}
		return list
	}
	constant := func(rows [][]int, zero bool) bool {
		for _, row := range rows {
			for _, d := range row {
				if d != row[0] || zero && d != 0 {
					return false
				}
			}
		}
		return true
	}
	require.False(t, constant(differences(func(x *Contents, s []byte) { x.State = append(x.State, s...) }), false),
		"what is compressed together does tell, or this test proves nothing")
	require.True(t, constant(differences(func(x *Contents, s []byte) { x.Apart = s }), false), "whatever the client chose, the secret adds the same")
	require.True(t, constant(differences(func(x *Contents, s []byte) { x.Plain = s }), true), "all secrets of a length take the same")
	require.True(t, constant(differences(func(x *Contents, s []byte) { x.Secret = s }), true))
}

func TestTokenLengthsAreTheSameForAllGuesses(t *testing.T) {
	c := mintingCodec(t, Options{})
	lengths := map[int]bool{}
	for _, first := range "0123456789abcdef" {
		for _, second := range "0123456789abcdef" {
			x := leakyContents("AAAA"+leakName+string(first)+string(second), "7d03f9", func(x *Contents, s []byte) { x.Secret = s })
			token, err := c.Seal(Binding{}, mintedAt, x)
			require.NoError(t, err)
			lengths[len(token)] = true
		}
	}
	require.Len(t, lengths, 1)
}
