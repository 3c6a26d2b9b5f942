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
