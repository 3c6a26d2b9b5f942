package codec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesctrhmac"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcmsiv"
	"github.com/tink-crypto/tink-go/v2/aead/chacha20poly1305"
	"github.com/tink-crypto/tink-go/v2/aead/xaesgcm"
	"github.com/tink-crypto/tink-go/v2/aead/xchacha20poly1305"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
)

// KeyType is a kind of key that is fit for tokens.
type KeyType string

// The kinds of key a keyset may hold. All have 256 bits and nonces that can be
// chosen at random for ever.
const (
	// XAES256GCM is the default: AES-256-GCM with a nonce of 192 bits. A token is
	// 45 bytes longer than what it holds.
	XAES256GCM KeyType = "xaes-256-gcm"
	// AES256CTRHMACSHA256 runs in Go's FIPS-140-only mode, and commits to its key:
	// no token opens under two keys. Use it for keys brought by tenants. A token
	// is 53 bytes longer than what it holds.
	AES256CTRHMACSHA256 KeyType = "aes-256-ctr-hmac-sha256"
	// XChaCha20Poly1305 is fast where the processor has no AES instructions. A
	// token is 45 bytes longer than what it holds.
	XChaCha20Poly1305 KeyType = "xchacha20-poly1305"
)

// KeyTypes returns the kinds of key there are, the default first.
func KeyTypes() []KeyType { return []KeyType{XAES256GCM, AES256CTRHMACSHA256, XChaCha20Poly1305} }

// template returns how Tink makes such a key.
func (t KeyType) template() (*tinkpb.KeyTemplate, error) {
	switch t {
	case XAES256GCM:
		return aead.XAES256GCM192BitNonceKeyTemplate(), nil
	case AES256CTRHMACSHA256:
		return aead.AES256CTRHMACSHA256KeyTemplate(), nil
	case XChaCha20Poly1305:
		return aead.XChaCha20Poly1305KeyTemplate(), nil
	}
	return nil, keyError(0, fmt.Sprintf("type %q is not one of %s", string(t), typeList()))
}

var (
	errEmptyKeyset = errors.New("codec: the keyset has no keys")
	errNoPrimary   = errors.New("codec: the keyset has no enabled primary key: enable a key and promote it")
)

// keyError says why a key is refused, or an operation on it, and what to do about it. The id
// is zero if the problem is not one key's.
func keyError(id uint32, problem string) error {
	if id == 0 {
		return errors.New("codec: key " + problem)
	}
	return fmt.Errorf("codec: key %08x %s", id, problem)
}

// typeOf returns the type of an entry's key, or why it is not allowed.
func typeOf(entry *keyset.Entry) (KeyType, error) {
	refuse := func(problem string) (KeyType, error) {
		return "", keyError(entry.KeyID(), problem)
	}
	switch p := entry.Key().Parameters().(type) {
	case *xaesgcm.Parameters:
		if p.SaltSizeInBytes() != 12 {
			return refuse("has a shortened nonce: use " + string(XAES256GCM) + " with its nonce of 192 bits")
		}
		return XAES256GCM, nil
	case *xchacha20poly1305.Parameters:
		return XChaCha20Poly1305, nil
	case *aesctrhmac.Parameters:
		if p.AESKeySizeInBytes() != 32 || p.HMACKeySizeInBytes() < 32 || p.IVSizeInBytes() != 16 ||
			p.TagSizeInBytes() != 32 || p.HashType() != aesctrhmac.SHA256 {
			return refuse("has weaker parameters than tokens need: use " + string(AES256CTRHMACSHA256) +
				" with a key of 256 bits for both parts, a nonce of 128 and a tag of 256 bits")
		}
		return AES256CTRHMACSHA256, nil
	case *aesgcm.Parameters:
		return refuse("is of type AES-GCM, whose short random nonces are unsafe after some four thousand million tokens: use " +
			string(XAES256GCM) + ", or " + string(AES256CTRHMACSHA256) + " where FIPS 140 is required")
	case *chacha20poly1305.Parameters:
		return refuse("is of type ChaCha20-Poly1305, whose nonces are too short to be chosen at random: use " +
			string(XChaCha20Poly1305))
	case *aesgcmsiv.Parameters:
		return refuse("is of type AES-GCM-SIV, which has no advantage here and is slower: use " + string(XAES256GCM))
	}
	return refuse("is of a type that does not seal tokens: use one of " + typeList())
}

// checkProto refuses what can be seen from a key's description.
func checkProto(k *tinkpb.Keyset_Key) error {
	name := k.GetKeyData().GetTypeUrl()
	name = name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case k.GetKeyId() == 0:
		return keyError(0, "without an id: create keysets with NewKeyset, or with Tink's own tool")
	case k.GetStatus() != tinkpb.KeyStatusType_ENABLED && k.GetStatus() != tinkpb.KeyStatusType_DISABLED:
		return keyError(k.GetKeyId(), "has no known status: it must be ENABLED or DISABLED")
	case !sealingTypes[name]:
		return keyError(k.GetKeyId(), fmt.Sprintf("is of type %.40q, which does not seal tokens: use one of %s", name, typeList()))
	case k.GetOutputPrefixType() != tinkpb.OutputPrefixType_TINK:
		return keyError(k.GetKeyId(), fmt.Sprintf(
			"has output prefix %s: only TINK is allowed, which puts the key's id into the token so that one key is tried, not all",
			k.GetOutputPrefixType()))
	}
	return nil
}

// sealingTypes are the AEAD key types for which [typeOf] has a verdict.
var sealingTypes = map[string]bool{
	"XAesGcmKey": true, "XChaCha20Poly1305Key": true, "AesCtrHmacAeadKey": true,
	"AesGcmKey": true, "ChaCha20Poly1305Key": true, "AesGcmSivKey": true,
}

func typeList() string {
	var names []string
	for _, t := range KeyTypes() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}
