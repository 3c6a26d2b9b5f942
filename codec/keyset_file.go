package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

const (
	// keysetMode keeps other users of the machine away from the keys.
	keysetMode fs.FileMode = 0o600
	// maxKeysetFile is far more than any sensible keyset needs, in bytes.
	maxKeysetFile = 1 << 20
)

// LoadKeyset reads a cleartext keyset file. On Unix it refuses a file that
// other users may read or write. Errors of the file system can be matched with
// [errors.Is], as [fs.ErrNotExist]; see [ParseKeyset] for the others.
func LoadKeyset(path string) (*Keyset, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("codec: load the keyset: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("codec: load the keyset: %w", err)
	}
	if !info.Mode().IsRegular() && !info.Mode().IsDir() {
		// Pipes and mounted secrets come without meaningful permissions or sizes.
		info = nil
	}
	if info != nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("codec: the keyset %s can be read by other users (mode %04o): run chmod 600 %[1]s",
			path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeysetFile+1))
	if err != nil {
		return nil, fmt.Errorf("codec: load the keyset: %w", err)
	}
	defer clear(data)
	if len(data) > maxKeysetFile {
		return nil, fmt.Errorf("codec: the keyset %s is larger than %d bytes", path, maxKeysetFile)
	}
	ks, err := ParseKeyset(data)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return ks, nil
}

// WriteFile saves the keyset, in clear text, readable by its owner only. An
// existing file is replaced in one step: whoever loads it gets the old keyset or
// the new one, whole, even if the machine stops half-way.
func (k *Keyset) WriteFile(path string) error {
	temporary, err := k.writeTemporary(path)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("codec: write the keyset: %w", err)
	}
	syncDir(filepath.Dir(path))
	return nil
}

// CreateKeysetFile creates a keyset file with one fresh [XAES256GCM] key and
// returns the keyset. It fails, with an error that matches [fs.ErrExist], if the
// file exists, also when several processes try at once: exactly one succeeds, and
// the others find a complete file.
func CreateKeysetFile(path string) (*Keyset, error) {
	ks, err := NewKeyset()
	if err != nil {
		return nil, err
	}
	temporary, err := ks.writeTemporary(path)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temporary)
	// A hard link is the one way to put a complete file in place that fails if
	// there is one: O_EXCL would show the others an empty file for a moment.
	err = os.Link(temporary, path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = ks.createExclusive(path)
	}
	if err != nil {
		return nil, fmt.Errorf("codec: create the keyset: %w", err)
	}
	syncDir(filepath.Dir(path))
	return ks, nil
}

// createExclusive is for file systems without hard links.
func (k *Keyset) createExclusive(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keysetMode)
	if err != nil {
		return err
	}
	if err = k.writeTo(f); err != nil {
		os.Remove(path)
	}
	return err
}

// writeTemporary writes the keyset to a new file beside path.
func (k *Keyset) writeTemporary(path string) (string, error) {
	// CreateTemp gives the file the mode we want.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return "", fmt.Errorf("codec: write the keyset: %w", err)
	}
	if err := k.writeTo(f); err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("codec: write the keyset: %w", err)
	}
	return f.Name(), nil
}

// writeTo writes the keyset to f, on to the disk, and closes f.
func (k *Keyset) writeTo(f *os.File) error {
	var data bytes.Buffer
	err := insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&data))
	if err == nil {
		data.WriteByte('\n')
		_, err = f.Write(data.Bytes())
	}
	clear(data.Bytes())
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes a rename last. Not every system can; the rename stands anyway.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
