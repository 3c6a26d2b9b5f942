package tokens_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// A token shows its format and the id of its key, and nothing else: not a byte more is
// the same in two tokens of the same contents, and nothing of these can be found.
func TestTokensShowFormatAndKeyOnly(t *testing.T) {
	for _, kind := range codec.KeyTypes() {
		t.Run(string(kind), func(t *testing.T) {
			k, err := codec.NewKeyset(kind)
			require.NoError(t, err)
			c := newCodec(t, k, tokens.Options{Audience: "audience"})
			x := sample("the state of the saga")
			x.Apart, x.Plain, x.Secret = []byte("what is apart"), []byte("what is plain"), []byte("what is secret")
			const times, shown = 20, 5
			var first []byte
			differs := make([]bool, 0)
			for range times {
				token := seal(t, c, alice, x)
				require.Equal(t, k.Primary().Prefix, token[:len(k.Primary().Prefix)])
				sealed, err := base64.RawURLEncoding.DecodeString(token[1:])
				require.NoError(t, err)
				for _, part := range []string{
					"the state", "apart", "plain", "secret", x.Claims.Tool, string(x.Claims.ID[:4]),
					alice.Purpose, alice.Tenant, "alice", "audience",
				} {
					require.NotContains(t, string(sealed), part)
				}
				if first == nil {
					first, differs = sealed, make([]bool, len(sealed))
				}
				for i := range sealed {
					differs[i] = differs[i] || sealed[i] != first[i]
				}
			}
			for i, d := range differs {
				assert.Equal(t, i >= shown, d, "byte %d differs between tokens of the same contents", i)
			}
		})
	}
}

// The algorithm is the key's: a token sealed with another one under a key's id is
// refused, whichever of the two is expected.
func TestTheKeySaysTheAlgorithm(t *testing.T) {
	const id = 7
	templates := []*tinkpb.KeyTemplate{
		aead.XAES256GCM192BitNonceKeyTemplate(), aead.XChaCha20Poly1305KeyTemplate(), aead.AES256CTRHMACSHA256KeyTemplate(),
	}
	var codecs []*tokens.Codec
	for _, template := range templates {
		handle, err := keyset.NewHandle(template)
		require.NoError(t, err)
		material := insecurecleartextkeyset.KeysetMaterial(handle)
		material.PrimaryKeyId, material.Key[0].KeyId = id, id
		var data bytes.Buffer
		require.NoError(t, keyset.NewJSONWriter(&data).Write(material))
		k, err := codec.ParseKeyset(data.Bytes())
		require.NoError(t, err)
		codecs = append(codecs, newCodec(t, k, tokens.Options{}))
	}
	for i, from := range codecs {
		token := seal(t, from, alice, sample("{}"))
		for j, to := range codecs {
			_, err := to.Open(alice, noon, token)
			if i == j {
				require.NoError(t, err)
			} else {
				requireRejected(t, err, tokens.ReasonAuthentication)
			}
		}
	}
}

// In Go's mode that allows nothing but what FIPS 140 approves, the one type of key seals
// that is for it. The mode is chosen when a program starts, so the test starts itself.
func TestFIPSOnly(t *testing.T) {
	const mode = "fips140=only"
	if os.Getenv("GODEBUG") != mode {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFIPSOnly$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG="+mode)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.True(t, bytes.Contains(out, []byte("sealed with aes-256-ctr-hmac-sha256")), "%s", out)
		return
	}
	for _, kind := range codec.KeyTypes() {
		err := sealWith(kind)
		if kind == codec.AES256CTRHMACSHA256 {
			require.NoError(t, err)
			t.Logf("sealed with %s", kind)
		} else {
			require.Error(t, err, kind)
		}
	}
}

// sealWith seals and opens a token with a new key of a type.
func sealWith(kind codec.KeyType) error {
	k, err := codec.NewKeyset(kind)
	if err != nil {
		return err
	}
	c, err := tokens.New(k, tokens.Options{})
	if err != nil {
		return err
	}
	token, err := c.Seal(alice, noon, sample("{}"))
	if err == nil {
		_, err = c.Open(alice, noon, token)
	}
	return err
}
