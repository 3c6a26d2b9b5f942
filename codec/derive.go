package codec

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/tink-crypto/tink-go/v2/aead/aesctrhmac"
	"github.com/tink-crypto/tink-go/v2/aead/xaesgcm"
	"github.com/tink-crypto/tink-go/v2/aead/xchacha20poly1305"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
)

// Derive returns a key of 256 bits that is derived from the key with an id, enabled or not,
// and from what it is to be used for. It tells nothing of that key nor of what is derived
// for other uses (HKDF, RFC 5869). It fails if there is no such key.
//
// Servers make keyed hashes with it, by which they find records again whose names must
// tell nothing.
func (k *Keyset) Derive(id uint32, use string) ([]byte, error) {
	if _, err := k.find(id); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(k.keys, func(info KeyInfo) bool { return info.ID == id })
	entry, err := k.handle.Entry(i)
	if err != nil {
		return nil, fmt.Errorf("codec: keyset: %w", err)
	}
	token := insecuresecretdataaccess.Token{}
	var secret []byte
	switch key := entry.Key().(type) {
	case *xaesgcm.Key:
		secret = key.KeyBytes().Data(token)
	case *xchacha20poly1305.Key:
		secret = key.KeyBytes().Data(token)
	case *aesctrhmac.Key:
		secret = slices.Concat(key.AESKeyBytes().Data(token), key.HMACKeyBytes().Data(token))
	default:
		return nil, keyError(id, "is of a type that nothing can be derived from")
	}
	return hkdf.Key(sha256.New, secret, nil, "mcpsaga derived key 1\x00"+use, sha256.Size)
}
