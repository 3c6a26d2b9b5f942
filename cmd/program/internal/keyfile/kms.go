package keyfile

import (
	"bytes"
	"context"
	"errors"

	"github.com/tink-crypto/tink-go/v2/tink"
)

// Key is the key of a KMS that encrypts a keyset. It remembers what it has decrypted last, as a file is loaded more often
// than it changes: for what has not changed the KMS is not asked. It is not for use by several goroutines at once.
type Key struct {
	// Context ends the waiting for the KMS, which Tink's interface has no context for.
	Context context.Context
	// Open returns the key, each time that the KMS is asked.
	Open func(context.Context) (tink.AEAD, error)

	ciphertext, associatedData, plaintext []byte // of the last
}

// Encrypt implements [tink.AEAD].
func (k *Key) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	plaintext = bytes.Clone(plaintext) // who does not wait any longer may write over it
	return k.ask(func(key tink.AEAD) ([]byte, error) { return key.Encrypt(plaintext, associatedData) })
}

// Decrypt implements [tink.AEAD].
func (k *Key) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if k.ciphertext != nil && bytes.Equal(k.ciphertext, ciphertext) && bytes.Equal(k.associatedData, associatedData) {
		return bytes.Clone(k.plaintext), nil
	}
	ciphertext = bytes.Clone(ciphertext)
	plaintext, err := k.ask(func(key tink.AEAD) ([]byte, error) { return key.Decrypt(ciphertext, associatedData) })
	if err != nil {
		return nil, err
	}
	clear(k.plaintext)
	k.ciphertext, k.associatedData, k.plaintext = ciphertext, bytes.Clone(associatedData), bytes.Clone(plaintext)
	return plaintext, nil
}

// ask asks the KMS. Its errors are only to be shown: that a certificate of the KMS does not exist must not look as if the
// keyset did not.
func (k *Key) ask(do func(tink.AEAD) ([]byte, error)) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		key, err := k.Open(k.Context)
		if err != nil {
			answered <- answer{err: err}
			return
		}
		data, err := do(key)
		answered <- answer{data, err}
	}()
	select {
	case <-k.Context.Done():
		return nil, context.Cause(k.Context)
	case a := <-answered:
		if a.err != nil {
			return nil, errors.New(a.err.Error())
		}
		return a.data, nil
	}
}
