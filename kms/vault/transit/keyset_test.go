package transit

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/vault/api"
	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/kms/vault"
)

func (e *engine) client() *api.Client {
	config := api.DefaultConfig()
	config.Address, config.MaxRetries = e.server.URL, 0
	client, err := api.NewClient(config)
	require.NoError(e.t, err)
	client.SetToken(token)
	return client
}

func key(t *testing.T, client *api.Client, name string) tink.AEAD {
	t.Helper()
	key, err := vault.KMS(client)(t.Context(), "hcvault:///transit/keys/"+name)
	require.NoError(t, err)
	return key
}

// version is that of the engine's key which encrypted a keyset file.
func version(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var file struct {
		EncryptedKeyset string `json:"encryptedKeyset"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	sealed, err := base64.StdEncoding.DecodeString(file.EncryptedKeyset)
	require.NoError(t, err)
	return string(sealed[:len("vault:v1")])
}

func addKey(k *codec.Keyset) (*codec.Keyset, error) {
	k, _, err := k.Add(codec.XAES256GCM)
	return k, err
}

func TestEngineEncryptsKeysets(t *testing.T) {
	e := newEngine(t)
	client := e.client()
	file := codec.KeysetFile{Path: filepath.Join(t.TempDir(), "keyset.json"), KMS: key(t, client, "lunch")}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	require.NoError(t, file.Create(keys))
	require.Equal(t, "vault:v1", version(t, file.Path))
	loaded, err := file.Load()
	require.NoError(t, err)
	require.Equal(t, keys.Keys(), loaded.Keys())
	require.EqualValues(t, 2, e.asked.Load())

	// What the engine's first key has encrypted opens when there is another, which encrypts what is changed.
	e.do("keys/lunch/rotate", nil)
	loaded, err = file.Update(t.Context(), addKey)
	require.NoError(t, err)
	require.Len(t, loaded.Keys(), 2)
	require.Equal(t, "vault:v2", version(t, file.Path))
	e.do("keys/lunch/config", map[string]any{"min_decryption_version": 2})
	loaded, err = file.Load()
	require.NoError(t, err)
	require.Len(t, loaded.Keys(), 2)

	before, err := os.ReadFile(file.Path)
	require.NoError(t, err)
	for name, kms := range map[string]tink.AEAD{
		"another key": key(t, client, "other"), "no key": key(t, client, "missing"), "no token": key(t, stranger(e), "lunch"),
	} {
		t.Run(name, func(t *testing.T) {
			file := codec.KeysetFile{Path: file.Path, KMS: kms}
			_, err := file.Load()
			require.ErrorContains(t, err, "the KMS does not decrypt the keyset")
			require.NotContains(t, err.Error(), token)
			_, err = file.Update(t.Context(), addKey)
			require.Error(t, err)
		})
	}
	e.server.Close()
	_, err = file.Load()
	require.ErrorContains(t, err, "connection refused")
	after, err := os.ReadFile(file.Path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func stranger(e *engine) *api.Client {
	client := e.client()
	client.ClearToken()
	return client
}

// The engine binds what it encrypts to its purpose.
func TestEngineBindsWhatItEncrypts(t *testing.T) {
	kms := key(t, newEngine(t).client(), "lunch")
	sealed, err := kms.Encrypt([]byte("keys"), []byte("mcpsaga keyset"))
	require.NoError(t, err)
	opened, err := kms.Decrypt(sealed, []byte("mcpsaga keyset"))
	require.NoError(t, err)
	require.Equal(t, "keys", string(opened))
	for _, other := range []string{"", "another purpose"} {
		_, err = kms.Decrypt(sealed, []byte(other))
		require.Error(t, err)
	}
}
