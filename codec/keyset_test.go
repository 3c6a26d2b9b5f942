package codec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/daead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/mac"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"

	"github.com/mcpsaga/mcpsaga/codec"
)

func newKeyset(t testing.TB) *codec.Keyset {
	t.Helper()
	k, err := codec.NewKeyset()
	require.NoError(t, err)
	return k
}

// foreignKeyset is a keyset as Tink makes it, after change.
func foreignKeyset(t testing.TB, template *tinkpb.KeyTemplate, change func(*tinkpb.Keyset)) []byte {
	t.Helper()
	handle, err := keyset.NewHandle(template)
	require.NoError(t, err)
	material := insecurecleartextkeyset.KeysetMaterial(handle)
	if change != nil {
		change(material)
	}
	var out bytes.Buffer
	require.NoError(t, keyset.NewJSONWriter(&out).Write(material))
	return out.Bytes()
}

// A new keyset has a key of each type that is given, and the first seals.
func TestNewKeysetOfTypes(t *testing.T) {
	k, err := codec.NewKeyset(codec.XChaCha20Poly1305, codec.XAES256GCM, codec.AES256CTRHMACSHA256)
	require.NoError(t, err)
	var types []codec.KeyType
	for _, key := range k.Keys() {
		assert.True(t, key.Enabled)
		types = append(types, key.Type)
	}
	assert.Equal(t, []codec.KeyType{codec.XChaCha20Poly1305, codec.XAES256GCM, codec.AES256CTRHMACSHA256}, types)
	assert.Equal(t, codec.XChaCha20Poly1305, k.Primary().Type)
	assert.Equal(t, codec.XAES256GCM, newKeyset(t).Primary().Type)
}

func TestParseKeysetRefuses(t *testing.T) {
	good := aead.XAES256GCM192BitNonceKeyTemplate()
	for name, tt := range map[string]struct {
		template *tinkpb.KeyTemplate
		change   func(*tinkpb.Keyset)
		want     string
	}{
		"AES-GCM":           {aead.AES256GCMKeyTemplate(), nil, "use xaes-256-gcm"},
		"AES-128-GCM":       {aead.AES128GCMKeyTemplate(), nil, "use xaes-256-gcm"},
		"AES-GCM-SIV":       {aead.AES256GCMSIVKeyTemplate(), nil, "use xaes-256-gcm"},
		"ChaCha20-Poly1305": {aead.ChaCha20Poly1305KeyTemplate(), nil, "use xchacha20-poly1305"},
		"128 bits":          {aead.AES128CTRHMACSHA256KeyTemplate(), nil, "key of 256 bits"},
		"short nonce":       {aead.XAES256GCM160BitNonceKeyTemplate(), nil, "192 bits"},
		"no prefix":         {aead.XAES256GCM192BitNonceNoPrefixKeyTemplate(), nil, "output prefix RAW: only TINK"},
		"legacy prefix":     {good, func(k *tinkpb.Keyset) { k.Key[0].OutputPrefixType = tinkpb.OutputPrefixType_LEGACY }, "output prefix LEGACY"},
		"crunchy prefix":    {good, func(k *tinkpb.Keyset) { k.Key[0].OutputPrefixType = tinkpb.OutputPrefixType_CRUNCHY }, "output prefix CRUNCHY"},
		"MAC":               {mac.HMACSHA256Tag256KeyTemplate(), nil, `"HmacKey", which does not seal tokens: use one of xaes-256-gcm`},
		"deterministic":     {daead.AESSIVKeyTemplate(), nil, "does not seal tokens"},
		"no keys":           {good, func(k *tinkpb.Keyset) { k.Key = nil }, "has no keys"},
		"only destroyed":    {good, func(k *tinkpb.Keyset) { k.Key[0].Status = tinkpb.KeyStatusType_DESTROYED }, "has no keys"},
		"disabled primary":  {good, func(k *tinkpb.Keyset) { k.Key[0].Status = tinkpb.KeyStatusType_DISABLED }, "no enabled primary"},
		"no primary":        {good, func(k *tinkpb.Keyset) { k.PrimaryKeyId++ }, "no enabled primary"},
		"unknown status":    {good, func(k *tinkpb.Keyset) { k.Key[0].Status = 0 }, "must be ENABLED or DISABLED"},
		"same id twice":     {good, func(k *tinkpb.Keyset) { k.Key = append(k.Key, k.Key[0]) }, "occurs twice"},
		"no id":             {good, func(k *tinkpb.Keyset) { k.Key[0].KeyId = 0 }, "without an id"},
		"no key data":       {good, func(k *tinkpb.Keyset) { k.Key[0].KeyData = nil }, "does not seal tokens"},
		"broken key":        {good, func(k *tinkpb.Keyset) { k.Key[0].KeyData.Value = []byte("hunter2") }, "not a keyset"},
	} {
		t.Run(name, func(t *testing.T) {
			data := foreignKeyset(t, tt.template, tt.change)
			_, err := codec.ParseKeyset(data)
			require.ErrorContains(t, err, tt.want)
			requireNoKeys(t, data, err.Error())
		})
	}
	for _, broken := range []string{"", "{", "null", "[]", `{"key":"hunter2"}`, "hunter2", `{"encryptedKeyset":"aHVudGVyMg=="}`} {
		_, err := codec.ParseKeyset([]byte(broken))
		require.Error(t, err, broken)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// requireNoKeys checks that text shows nothing of the keys in a keyset.
func requireNoKeys(t testing.TB, keysetJSON []byte, text string) {
	t.Helper()
	var parsed struct {
		Key []struct{ KeyData struct{ Value string } }
	}
	require.NoError(t, json.Unmarshal(keysetJSON, &parsed))
	for _, k := range parsed.Key {
		for i := 0; i+8 <= len(k.KeyData.Value); i += 4 {
			require.NotContains(t, text, k.KeyData.Value[i:i+8])
		}
	}
}

func TestKeysetNeverPrintsKeys(t *testing.T) {
	data := foreignKeyset(t, aead.XAES256GCM192BitNonceKeyTemplate(), nil)
	k, err := codec.ParseKeyset(data)
	require.NoError(t, err)
	want := fmt.Sprintf("Keyset(%08x xaes-256-gcm enabled primary)", k.Primary().ID)
	holder := struct{ K *codec.Keyset }{k}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T%v"} {
		requireNoKeys(t, data, fmt.Sprintf(verb, k))
		requireNoKeys(t, data, fmt.Sprintf(verb, holder))
	}
	require.Equal(t, want, k.String())
	require.Equal(t, want, k.GoString())
	require.Equal(t, want, fmt.Sprintf("%x", k))
	require.Equal(t, "Keyset(none)", (*codec.Keyset)(nil).String())
	encoded, err := json.Marshal(holder)
	require.NoError(t, err)
	require.JSONEq(t, `{"K":"`+want+`"}`, string(encoded))
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "keys", k)
	require.Contains(t, log.String(), want)
	requireNoKeys(t, data, log.String())
}

// Tink keeps destroyed keys in a keyset, without their material.
func TestDestroyedKeysAreDropped(t *testing.T) {
	k, err := codec.ParseKeyset(foreignKeyset(t, aead.XAES256GCM192BitNonceKeyTemplate(), func(k *tinkpb.Keyset) {
		k.Key = append([]*tinkpb.Keyset_Key{{KeyId: 7, Status: tinkpb.KeyStatusType_DESTROYED, OutputPrefixType: tinkpb.OutputPrefixType_TINK}}, k.Key...)
	}))
	require.NoError(t, err)
	require.Len(t, k.Keys(), 1)
	require.NotEqual(t, uint32(7), k.Primary().ID)
}

func TestRotationRefuses(t *testing.T) {
	one := newKeyset(t)
	first := one.Primary().ID
	two, second, err := one.Add(codec.XChaCha20Poly1305)
	require.NoError(t, err)
	disabled, err := two.Disable(second)
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		do   func() (*codec.Keyset, error)
		want string
	}{
		"disable primary":  {func() (*codec.Keyset, error) { return two.Disable(first) }, "primary key and cannot be disabled: promote another"},
		"destroy primary":  {func() (*codec.Keyset, error) { return two.Destroy(first) }, "primary key and cannot be destroyed: promote another"},
		"destroy enabled":  {func() (*codec.Keyset, error) { return two.Destroy(second) }, "disable it first"},
		"promote disabled": {func() (*codec.Keyset, error) { return disabled.Promote(second) }, "enable it before"},
		"unknown promote":  {func() (*codec.Keyset, error) { return one.Promote(second) }, fmt.Sprintf("key %08x is not in the keyset, which has %08x", second, first)},
		"unknown disable":  {func() (*codec.Keyset, error) { return one.Disable(second) }, "is not in the keyset"},
		"unknown enable":   {func() (*codec.Keyset, error) { return one.Enable(second) }, "is not in the keyset"},
		"unknown destroy":  {func() (*codec.Keyset, error) { return one.Destroy(second) }, "is not in the keyset"},
		"type of key":      {func() (*codec.Keyset, error) { return codec.NewKeyset("rot13") }, `type "rot13" is not one of xaes-256-gcm`},
		"second type":      {func() (*codec.Keyset, error) { return codec.NewKeyset(codec.XAES256GCM, "rot13") }, `type "rot13" is not one of xaes-256-gcm`},
		"type to add":      {func() (*codec.Keyset, error) { k, _, err := one.Add("rot13"); return k, err }, `type "rot13"`},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := tt.do()
			require.Nil(t, k)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func FuzzParseKeyset(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add(foreignKeyset(f, aead.XAES256GCM192BitNonceKeyTemplate(), nil))
	f.Add(foreignKeyset(f, aead.AES256CTRHMACSHA256KeyTemplate(), nil))
	f.Add(foreignKeyset(f, aead.AES128GCMKeyTemplate(), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := codec.ParseKeyset(data)
		if err != nil {
			return
		}
		require.NotZero(t, k.Primary().ID)
		sealed, err := k.Encrypt([]byte("state"), nil)
		require.NoError(t, err)
		_, err = k.Decrypt(sealed, nil)
		require.NoError(t, err)
	})
}
