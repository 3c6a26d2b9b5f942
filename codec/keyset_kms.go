package codec

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// associatedData has a KMS open for a keyset only what was encrypted as one: who can have it encrypt
// something else cannot choose the keys of a server.
const associatedData = "mcpsaga keyset"

// ParseEncryptedKeyset reads a keyset in Tink's JSON form that kms has encrypted, as [KeysetFile] writes it: with the
// associated data "mcpsaga keyset". The KMS is asked once, here, and never per token. Its error is
// in the one returned.
func ParseEncryptedKeyset(data []byte, kms tink.AEAD) (*Keyset, error) {
	if kms == nil {
		return nil, errors.New("codec: no KMS to decrypt the keyset with")
	}
	encrypted, err := keyset.NewJSONReader(bytes.NewReader(data)).ReadEncrypted()
	if err != nil || len(encrypted.GetEncryptedKeyset()) == 0 {
		if _, err := keyset.NewJSONReader(bytes.NewReader(data)).Read(); err == nil {
			return nil, errKeysetClear
		}
		return nil, errKeysetSyntax
	}
	asked := &askedKMS{AEAD: kms}
	handle, err := keyset.ReadWithAssociatedData(keyset.NewJSONReader(bytes.NewReader(data)), asked, []byte(associatedData))
	switch {
	case asked.err != nil:
		return nil, fmt.Errorf("codec: the KMS does not decrypt the keyset: it cannot be reached, or forbids it, "+
			"or the keyset was encrypted with another key or other associated data: %w", asked.err)
	case err != nil:
		return nil, errors.New("codec: what the KMS has decrypted is no keyset of Tink's")
	}
	return fromProto(insecurecleartextkeyset.KeysetMaterial(handle))
}

// encode returns the keyset as files hold it.
func (k *Keyset) encode(kms tink.AEAD) ([]byte, error) {
	var data bytes.Buffer
	var err error
	if kms == nil {
		err = insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&data))
	} else {
		asked := &askedKMS{AEAD: kms}
		err = k.handle.WriteWithAssociatedData(keyset.NewJSONWriter(&data), asked, []byte(associatedData))
		if asked.err != nil {
			err = fmt.Errorf("the KMS does not encrypt it: %w", asked.err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("codec: save the keyset: %w", err)
	}
	data.WriteByte('\n')
	return data.Bytes(), nil
}

// askedKMS remembers the error of a KMS, which Tink does not pass on.
type askedKMS struct {
	tink.AEAD
	err error
}

func (k *askedKMS) Encrypt(plaintext, associatedData []byte) (ciphertext []byte, err error) {
	ciphertext, k.err = k.AEAD.Encrypt(plaintext, associatedData)
	return ciphertext, k.err
}

func (k *askedKMS) Decrypt(ciphertext, associatedData []byte) (plaintext []byte, err error) {
	plaintext, k.err = k.AEAD.Decrypt(ciphertext, associatedData)
	return plaintext, k.err
}
