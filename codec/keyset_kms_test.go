package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/mcpsaga/mcpsaga/codec"
)

// countedKMS counts what it is asked, and can be away.
type countedKMS struct {
	tink.AEAD
	encrypted, decrypted int
	away                 error
}

func newKMS(t testing.TB) *countedKMS {
	t.Helper()
	master, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	require.NoError(t, err)
	opens, err := aead.New(master)
	require.NoError(t, err)
	return &countedKMS{AEAD: opens}
}

func (k *countedKMS) Encrypt(plaintext, associated []byte) ([]byte, error) {
	if k.encrypted++; k.away != nil {
		return nil, k.away
	}
	return k.AEAD.Encrypt(plaintext, associated)
}

func (k *countedKMS) Decrypt(ciphertext, associated []byte) ([]byte, error) {
	if k.decrypted++; k.away != nil {
		return nil, k.away
	}
	return k.AEAD.Decrypt(ciphertext, associated)
}

// brokenKMS encrypts what nothing opens.
type brokenKMS struct{ tink.AEAD }

func (brokenKMS) Encrypt([]byte, []byte) ([]byte, error) { return []byte("vault:v1:AAAA"), nil }

func TestKeysetsThatTheKMSWouldLose(t *testing.T) {
	kms := newKMS(t)
	f := codec.KeysetFile{Path: filepath.Join(t.TempDir(), "keyset.json"), KMS: kms}
	k, err := codec.NewKeyset()
	require.NoError(t, err)
	require.NoError(t, f.Write(k))
	before, err := os.ReadFile(f.Path)
	require.NoError(t, err)
	f.KMS = brokenKMS{kms}
	_, err = f.Update(t.Context(), func(k *codec.Keyset) (*codec.Keyset, error) { return k, nil })
	require.ErrorContains(t, err, "does not open what it has just encrypted, so nothing is written")
	require.ErrorContains(t, f.Write(k), "nothing is written")
	f.Path += ".new"
	require.Error(t, f.Create(k))
	require.NoFileExists(t, f.Path)
	after, err := os.ReadFile(f.Path[:len(f.Path)-len(".new")])
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// encryptedElsewhere is a keyset that another program of Tink's has encrypted.
func encryptedElsewhere(t *testing.T, kms tink.AEAD, template *tinkpb.KeyTemplate, associated string) []byte {
	t.Helper()
	inner, err := keyset.NewHandle(template)
	require.NoError(t, err)
	var data bytes.Buffer
	require.NoError(t, inner.WriteWithAssociatedData(keyset.NewJSONWriter(&data), kms, []byte(associated)))
	return data.Bytes()
}

func TestParseEncryptedKeyset(t *testing.T) {
	kms := newKMS(t)
	data := encryptedElsewhere(t, kms, aead.XAES256GCM192BitNonceKeyTemplate(), "mcpsaga keyset")
	k, err := codec.ParseEncryptedKeyset(data, kms)
	require.NoError(t, err)
	require.Equal(t, codec.XAES256GCM, k.Primary().Type)
	for range 3 {
		sealed, err := k.Encrypt([]byte("state"), nil)
		require.NoError(t, err)
		_, err = k.Decrypt(sealed, nil)
		require.NoError(t, err)
	}
	require.Equal(t, 1, kms.decrypted, "once, and not per token")

	clear := foreignKeyset(t, aead.XAES256GCM192BitNonceKeyTemplate(), nil)
	for name, tt := range map[string]struct {
		data []byte
		kms  tink.AEAD
		want string
	}{
		"no KMS":           {data, nil, "no KMS"},
		"another KMS key":  {data, newKMS(t), "encrypted with another key"},
		"another purpose":  {encryptedElsewhere(t, kms, aead.XAES256GCM192BitNonceKeyTemplate(), ""), kms, "other associated data"},
		"in clear text":    {clear, kms, "is in clear text"},
		"empty":            {nil, kms, "not a keyset"},
		"no keys":          {[]byte(`{"encryptedKeyset":""}`), kms, "not a keyset"},
		"unfit for tokens": {encryptedElsewhere(t, kms, aead.AES128GCMKeyTemplate(), "mcpsaga keyset"), kms, "use xaes-256-gcm"},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := codec.ParseEncryptedKeyset(tt.data, tt.kms)
			require.Nil(t, k)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err = codec.ParseKeyset(data)
	require.ErrorContains(t, err, "--keyset-kms")
}

func TestEncryptedKeysetFile(t *testing.T) {
	kms := newKMS(t)
	file := codec.KeysetFile{Path: filepath.Join(t.TempDir(), "keyset.json"), KMS: kms}
	first := newKeyset(t)
	require.NoError(t, file.Create(first))
	text, err := os.ReadFile(file.Path)
	require.NoError(t, err)
	require.Contains(t, string(text), "encryptedKeyset")
	_, err = codec.ParseKeyset(text)
	require.ErrorContains(t, err, "encrypted by a KMS", "nothing of it is in clear text")

	next, err := file.Update(t.Context(), addKey)
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, []int{kms.encrypted, kms.decrypted}, "what is written is opened first")
	loaded, err := file.Load()
	require.NoError(t, err)
	require.Equal(t, next.Keys(), loaded.Keys())
	sealed, err := first.Encrypt([]byte("state"), nil)
	require.NoError(t, err)
	opened, err := loaded.Decrypt(sealed, nil)
	require.NoError(t, err)
	require.Equal(t, "state", string(opened))

	text, err = os.ReadFile(file.Path)
	require.NoError(t, err)
	kms.away = errors.New("no route to it")
	_, err = file.Load()
	require.ErrorIs(t, err, kms.away)
	require.ErrorContains(t, err, file.Path)
	_, err = file.Update(t.Context(), addKey)
	require.ErrorIs(t, err, kms.away)
	require.ErrorIs(t, file.Write(first), kms.away)
	after, err := os.ReadFile(file.Path)
	require.NoError(t, err)
	require.Equal(t, text, after, "nothing is written then")
	require.Equal(t, []string{".keyset.json.lock", "keyset.json"}, namesIn(t, filepath.Dir(file.Path)))
}

// A keyset file that a key of a KMS encrypts. In production the key is that of a
// KMS, as of package kms/vault.
func ExampleKeysetFile() {
	key, err := codec.NewKeyset() // any AEAD of Tink's
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := codec.KeysetFile{Path: filepath.Join(dir, "keyset.json"), KMS: key}
	keys, err := codec.NewKeyset()
	if err == nil {
		err = file.Create(keys)
	}
	if err == nil {
		keys, err = file.Load()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(keys.Keys()), "key")
	_, err = codec.LoadKeyset(file.Path)
	fmt.Println("without the KMS it opens:", err == nil)
	// Output:
	// 1 key
	// without the KMS it opens: false
}
