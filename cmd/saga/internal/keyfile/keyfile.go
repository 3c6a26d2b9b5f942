// Package keyfile finds, creates and watches the file that holds a server's keys.
package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Default is the keyset file of this user.
func Default() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for a keyset, name one with --keyset: %w", err)
	}
	return filepath.Join(dir, "saga", "keyset.json"), nil
}

// LoadOrCreate loads the keyset at path, and creates one there, readable by this
// user only, if there is none. Of several processes that try at once one creates
// it and the others load it. created reports what happened.
func LoadOrCreate(path string) (keys *codec.Keyset, created bool, err error) {
	keys, err = codec.LoadKeyset(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, err
	}
	keys, err = codec.CreateKeysetFile(path)
	if errors.Is(err, fs.ErrExist) {
		keys, err = codec.LoadKeyset(path)
		return keys, false, err
	}
	return keys, err == nil, err
}
