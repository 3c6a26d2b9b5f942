package codec_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// What is derived depends on the key and the use, survives the stages of a rotation and a
// file, and is the same for ever: names of records are made with it.
func TestDerive(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range codec.KeyTypes() {
		keys, err := codec.NewKeyset(kind)
		require.NoError(t, err)
		old := keys.Primary().ID
		derived, err := keys.Derive(old, "names")
		require.NoError(t, err)
		require.Len(t, derived, 32)
		other, err := keys.Derive(old, "other")
		require.NoError(t, err)
		for _, d := range [][]byte{derived, other} {
			assert.False(t, seen[hex.EncodeToString(d)])
			seen[hex.EncodeToString(d)] = true
		}

		next, id, err := keys.Add(kind)
		require.NoError(t, err)
		next, err = next.Promote(id)
		require.NoError(t, err)
		next, err = next.Disable(old)
		require.NoError(t, err)
		again, err := next.Derive(old, "names")
		require.NoError(t, err)
		assert.Equal(t, derived, again)
		fresh, err := next.Derive(id, "names")
		require.NoError(t, err)
		assert.NotEqual(t, derived, fresh)
		_, err = keys.Derive(id, "names")
		assert.ErrorContains(t, err, "is not in the keyset")
	}
}

func TestDeriveIsFrozen(t *testing.T) {
	keys, err := codec.ParseKeyset([]byte(`{"primaryKeyId":7,"key":[{"keyData":{"typeUrl":"type.googleapis.com/google.crypto.tink.XAesGcmKey",` +
		`"value":"EgIIDBogAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","keyMaterialType":"SYMMETRIC"},"status":"ENABLED","keyId":7,"outputPrefixType":"TINK"}]}`))
	require.NoError(t, err)
	derived, err := keys.Derive(7, "names")
	require.NoError(t, err)
	// By another program: HMAC-SHA-256 over the key of the bytes 0 to 31.
	assert.Equal(t, "5c808fec51a6eeb801cd708fe300671a0f3ef12e68d4498141fbc44381426ec1", hex.EncodeToString(derived))
}
