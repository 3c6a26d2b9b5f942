package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"

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
	data, err := readKeysetFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(data)
	return parseKeysetFile(path, data)
}

func parseKeysetFile(path string, data []byte) (*Keyset, error) {
	ks, err := ParseKeyset(data)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return ks, nil
}

// readKeysetFile returns what is in a file that no other user may read.
func readKeysetFile(path string) ([]byte, error) {
	// To open a pipe into which nothing writes must not wait: one may stand where a keyset was when it is loaded again.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("codec: load the keyset: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("codec: load the keyset: %w", err)
	}
	if info.IsDir() { // not to be made mode 0600
		return nil, fmt.Errorf("codec: the keyset %s is a directory: name a file", path)
	}
	if !info.Mode().IsRegular() {
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
	if info == nil && len(data) == 0 {
		return nil, fmt.Errorf("codec: the keyset %s is no file, and nothing is written into it: begin to write before it is read", path)
	}
	if len(data) > maxKeysetFile {
		clear(data)
		return nil, fmt.Errorf("codec: the keyset %s is larger than %d bytes", path, maxKeysetFile)
	}
	return data, nil
}

// ErrKeysetChanged is in the error of [UpdateKeysetFile] if a program that does not
// lock the file has changed it meanwhile.
var ErrKeysetChanged = errors.New("another program has changed the keyset meanwhile, so nothing was written: " +
	"look at what it did, and try again")

// UpdateKeysetFile replaces the keyset at path by what change makes of it, and returns
// that. Of all who do so at the same time, in whatever process, each gets what the one before
// has left, so that no change is lost. It waits for the others, until ctx ends or
// one of them hangs. A change by other means, such as an editor, is found
// before it is overwritten, and reported as [ErrKeysetChanged].
//
// The error of change is returned as it is; nothing is written then.
func UpdateKeysetFile(ctx context.Context, path string, change func(*Keyset) (*Keyset, error)) (*Keyset, error) {
	if _, err := os.Stat(path); err != nil { // a mistyped name gets no lock
		return nil, fmt.Errorf("codec: load the keyset: %w", err)
	}
	f, err := lockFile(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("codec: change the keyset: %w", err)
	}
	defer f.unlock()
	before, err := readKeysetFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(before)
	k, err := parseKeysetFile(path, before)
	if err != nil {
		return nil, err
	}
	if k, err = change(k); err != nil {
		return nil, err
	}
	err = f.place(k, func(temporary string) error {
		now, err := readKeysetFile(path)
		defer clear(now)
		if err == nil && !bytes.Equal(before, now) {
			err = ErrKeysetChanged
		}
		if err != nil {
			return err
		}
		return os.Rename(temporary, f.path)
	})
	if err != nil {
		return nil, fmt.Errorf("codec: change the keyset: %w", err)
	}
	return k, nil
}

// WriteFile saves the keyset, in clear text, readable by its owner only. An
// existing file is replaced in one step, whatever is in it: a reader gets the
// old keyset or the new one, whole, even if the machine stops half-way. To change a
// keyset use [UpdateKeysetFile].
func (k *Keyset) WriteFile(path string) error {
	return k.save("write", path, os.Rename)
}

// save writes the keyset to a file beside that at path, and has place put it there.
func (k *Keyset) save(what, path string, place func(temporary, path string) error) error {
	f, err := lockFile(context.Background(), path)
	if err == nil {
		defer f.unlock()
		err = f.place(k, func(temporary string) error { return place(temporary, f.path) })
	}
	if err != nil {
		return fmt.Errorf("codec: %s the keyset: %w", what, err)
	}
	return nil
}

// place writes the keyset to a new file beside the one that it is to become, and calls put
// to put it there. The owner is that of the file it replaces, so that a server of another
// user than the one who changes its keys can still read them.
func (f *lockedFile) place(k *Keyset, put func(temporary string) error) error {
	dir, prefix, suffix := f.temporary()
	// CreateTemp gives the file the mode we want.
	t, err := os.CreateTemp(dir, prefix+"*"+suffix)
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	err = k.writeTo(t)
	if old, statErr := os.Stat(f.path); statErr == nil {
		err = errors.Join(err, keepOwner(t.Name(), old))
	}
	if err == nil {
		err = put(t.Name())
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// CreateKeysetFile creates a keyset file with one fresh [XAES256GCM] key and
// returns the keyset; see [Keyset.CreateFile].
func CreateKeysetFile(path string) (*Keyset, error) {
	k, err := NewKeyset()
	if err != nil {
		return nil, err
	}
	if err := k.CreateFile(path); err != nil {
		return nil, err
	}
	return k, nil
}

// CreateFile saves the keyset like [Keyset.WriteFile], but fails, with an error that
// matches [fs.ErrExist], if the file exists, also when several processes try at once:
// exactly one succeeds, and the others find a complete file.
func (k *Keyset) CreateFile(path string) error {
	return k.save("create", path, func(temporary, path string) error {
		// A hard link is the one way to put a complete file in place that fails if there
		// is one, even one of a program that knows of no lock.
		err := os.Link(temporary, path)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		// A file system without hard links: the lock keeps others of our kind away.
		if _, err := os.Lstat(path); err == nil {
			return fs.ErrExist
		}
		return os.Rename(temporary, path)
	})
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

// syncDir makes a rename last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it has no such thing for directories
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("the keyset is written, but may not outlast a power failure: %w", err)
	}
	return nil
}
