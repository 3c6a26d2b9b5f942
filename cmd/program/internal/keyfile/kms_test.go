package keyfile

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/mcpsaga/mcpsaga/codec"
)

func TestKeyIsNotAskedForTheSameTwice(t *testing.T) {
	master, err := codec.NewKeyset()
	require.NoError(t, err)
	opened, away := 0, error(nil)
	file := codec.KeysetFile{Path: filepath.Join(t.TempDir(), "keyset.json"), KMS: &Key{Context: t.Context(), Open: func(context.Context) (tink.AEAD, error) {
		opened++
		return master, away
	}}}
	keys, created, err := LoadOrCreate(file)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, 2, opened, "what was encrypted is opened before it is written")
	for range 3 {
		loaded, err := file.Load()
		require.NoError(t, err)
		assert.Equal(t, keys.Keys(), loaded.Keys())
		assert.Equal(t, 2, opened)
	}
	more, _, err := keys.Add(codec.XAES256GCM)
	require.NoError(t, err)
	require.NoError(t, codec.KeysetFile{Path: file.Path, KMS: master}.Write(more))
	loaded, err := file.Load()
	require.NoError(t, err)
	assert.Len(t, loaded.Keys(), 2)
	assert.Equal(t, 3, opened)

	// That a file of the KMS's own is missing does not look as if the keyset was, which would then be created.
	require.NoError(t, codec.KeysetFile{Path: file.Path, KMS: master}.Write(keys))
	away = fs.ErrNotExist
	_, _, err = LoadOrCreate(file)
	require.ErrorContains(t, err, "the KMS does not decrypt the keyset")
	require.NotErrorIs(t, err, fs.ErrNotExist)
}

// deaf is a KMS that does not answer, until it is told to.
type deaf struct {
	tink.AEAD
	answers chan struct{}
}

func (d deaf) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	<-d.answers
	return d.AEAD.Decrypt(ciphertext, associatedData)
}

// A server that is interrupted while it starts does not wait for a KMS that does not answer.
func TestKeyIsNotWaitedForWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master, err := codec.NewKeyset()
		require.NoError(t, err)
		sealed, err := master.Encrypt([]byte("keys"), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		kms := deaf{master, make(chan struct{})}
		key := &Key{Context: ctx, Open: func(context.Context) (tink.AEAD, error) { return kms, nil }}
		_, err = key.Decrypt(sealed, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(kms.answers)
	})
}
