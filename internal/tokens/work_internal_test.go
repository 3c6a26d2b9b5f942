package tokens

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/mcpsaga/mcpsaga/codec"
)

// counting counts how often it is asked to decrypt.
type counting struct {
	tink.AEAD
	asked int
}

func (c *counting) Decrypt(ciphertext, associated []byte) ([]byte, error) {
	c.asked++
	return c.AEAD.Decrypt(ciphertext, associated)
}

// Whoever has no key makes a server do no more than one decryption, however many keys it
// has, and nothing that comes after: a codec that cannot decompress at all refuses the same.
func TestForgedTokensCostOneDecryption(t *testing.T) {
	c := mintingCodec(t, Options{MaxToken: 2000})
	keys := c.Keyset()
	for range 5 {
		more, _, err := keys.Add(codec.AES256CTRHMACSHA256)
		require.NoError(t, err)
		keys = more
	}
	other := keys.Keys()[1].ID
	disabled, err := keys.Disable(other)
	require.NoError(t, err)
	aead := &counting{AEAD: disabled}
	c.keys.Store(&keyring{disabled, aead})
	token, err := c.Seal(Binding{}, mintedAt, &Contents{Claims: Claims{Tool: "t"}, State: []byte(strings.Repeat("state ", 50))})
	require.NoError(t, err)
	_, err = c.Open(Binding{}, mintedAt, token)
	require.NoError(t, err)
	require.Equal(t, 1, aead.asked)

	c.zstd = nil
	require.Panics(t, func() { _, _ = c.Open(Binding{}, mintedAt, token) }, "what is authentic is decompressed, or this proves nothing")
	sealed, err := encoding.DecodeString(token[1:])
	require.NoError(t, err)
	under := func(id uint32, rest []byte) string {
		b := binary.BigEndian.AppendUint32([]byte{tinkPrefix}, id)
		return "1" + encoding.EncodeToString(append(b, rest...))
	}
	primary, rest := keys.Primary().ID, sealed[keyPrefixSize:]
	require.Equal(t, token, under(primary, rest))
	_, known := disabled.Key(other + 1)
	require.False(t, known)
	for name, test := range map[string]struct {
		token  string
		reason Reason
		asked  int
	}{
		"too long":     {"1" + strings.Repeat("A", 2000), ReasonTooLong, 0},
		"alphabet":     {token[:20] + "!" + token[21:], ReasonMalformed, 0},
		"another key":  {under(other+1, rest), ReasonUnknownKey, 0},
		"disabled key": {under(other, rest), ReasonUnknownKey, 0},
		"altered":      {token[:20] + flipped(token[20]) + token[21:], ReasonAuthentication, 1},
		"invented":     {under(primary, make([]byte, 900)), ReasonAuthentication, 1},
	} {
		aead.asked = 0
		_, err := c.Open(Binding{}, mintedAt, test.token)
		require.ErrorIs(t, err, ErrRejected, name)
		require.Equal(t, test.reason, err.(*Rejected).Reason, name)
		require.Equal(t, test.asked, aead.asked, name)
	}
}

func flipped(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// What a key of each type adds to what a token holds, and which one is the default.
func TestKeyTypesAddWhatIsDocumented(t *testing.T) {
	k, err := codec.NewKeyset()
	require.NoError(t, err)
	require.Equal(t, codec.XAES256GCM, k.Primary().Type)
	for kind, adds := range map[codec.KeyType]int{codec.XAES256GCM: 45, codec.AES256CTRHMACSHA256: 53, codec.XChaCha20Poly1305: 45} {
		k, err := codec.NewKeyset(kind)
		require.NoError(t, err)
		c, err := New(k, Options{})
		require.NoError(t, err)
		require.Equal(t, adds, c.Layout(Binding{}, mintedAt, mint(t, c, make([]byte, 100))).Sealed-100, kind)
	}
}
