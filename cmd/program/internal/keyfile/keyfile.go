// Package keyfile finds, creates and watches the file that holds a server's keys.
package keyfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Default is the keyset file of this user for a program.
func Default(program string) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for a keyset, name one with --keyset: %w", err)
	}
	return filepath.Join(dir, program, "keyset.json"), nil
}

// LoadOrCreate loads a keyset or, if there is none, creates one that only this
// user can read, and reports that. Of several processes that do so at once, one creates the
// file and the others load it.
func LoadOrCreate(file codec.KeysetFile) (keys *codec.Keyset, created bool, err error) {
	keys, err = file.Load()
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, false, err
	}
	if err := os.MkdirAll(filepath.Dir(file.Path), 0o700); err != nil {
		return nil, false, err
	}
	if keys, err = codec.NewKeyset(); err != nil {
		return nil, false, err
	}
	err = file.Create(keys)
	if errors.Is(err, fs.ErrExist) {
		keys, err = file.Load()
		return keys, false, err
	}
	return keys, err == nil, err
}

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
