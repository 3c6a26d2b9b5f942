//go:build unix

package codec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// A pipe may stand where a keyset was. Whoever loads it does not wait for one that writes, and reads what a shell's
// <(command) writes.
func TestKeysetsInPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	load := func() error {
		failed := make(chan error, 1)
		go func() {
			_, err := codec.LoadKeyset(path)
			failed <- err
		}()
		select {
		case err := <-failed:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("it waits")
			return nil
		}
	}
	assert.ErrorContains(t, load(), "nothing is written into it: begin to write before it is read")

	file := filepath.Join(t.TempDir(), "keyset")
	_, err := codec.CreateKeysetFile(file)
	require.NoError(t, err)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.Write(raw[:10])
	require.NoError(t, err)
	path = fmt.Sprintf("/dev/fd/%d", r.Fd())
	go func() {
		_, _ = w.Write(raw[10:])
		_ = w.Close()
	}()
	assert.NoError(t, load())
}
