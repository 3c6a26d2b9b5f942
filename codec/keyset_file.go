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
	"strings"
	"syscall"

	"github.com/tink-crypto/tink-go/v2/tink"
)

const (
	// keysetMode keeps other users of the machine away from the keys.
	keysetMode fs.FileMode = 0o600
	// lentMode is what a group may do with a file of root's.
	lentMode fs.FileMode = 0o040
	// maxKeysetFile is far more than any sensible keyset needs, in bytes.
	maxKeysetFile = 1 << 20
)

// KeysetFile is a file that holds a keyset. All programs that share it use the same KMS, or none.
type KeysetFile struct {
	// Path is where the file is. Of a symbolic link, the file behind it is read and replaced.
	Path string
	// KMS encrypts the keyset, as a key of one of Tink's KMS integrations does; see [ParseEncryptedKeyset].
	// Each method asks it once, and Update twice. Nil leaves the keyset in clear text.
	KMS tink.AEAD
}

// LoadKeyset reads a keyset file in clear text; see [KeysetFile.Load].
func LoadKeyset(path string) (*Keyset, error) { return KeysetFile{Path: path}.Load() }

// Load reads the keyset. On Unix it refuses a file that other users may read or write, but not one of root's that
// root lets a group read to which this process belongs, as secrets are mounted in containers. Errors of
// the file system can be matched with [errors.Is], as [fs.ErrNotExist], and those of the KMS too; see
// [ParseKeyset] for the others.
func (f KeysetFile) Load() (*Keyset, error) {
	data, err := readKeysetFile(f.Path)
	if err != nil {
		return nil, err
	}
	defer clear(data)
	return f.parse(data)
}

func (f KeysetFile) parse(data []byte) (k *Keyset, err error) {
	if f.KMS == nil {
		k, err = ParseKeyset(data)
	} else {
		k, err = ParseEncryptedKeyset(data, f.KMS)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, f.Path)
	}
	return k, nil
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
	if info != nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 && !lentByRoot(info) {
		return nil, fmt.Errorf("codec: the keyset %s can be read by other users (mode %04o): run chmod 600 '%s'",
			path, info.Mode().Perm(), strings.ReplaceAll(path, "'", `'\''`))
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

// ErrKeysetChanged is in the error of [KeysetFile.Update] if a program that does not
// lock the file has changed it meanwhile.
var ErrKeysetChanged = errors.New("another program has changed the keyset meanwhile, so nothing was written: " +
	"look at what it did, and try again")

// Update replaces the keyset by what change makes of it, and returns that. Of all who do so at the same time, in
// whatever process, each gets what the one before has left, so that no change is lost. It waits for the others, until
// ctx ends or one of them hangs. A change by other means, such as an editor, is found
// before it is overwritten, and reported as [ErrKeysetChanged].
//
// The error of change is returned as it is; nothing is written then.
func (f KeysetFile) Update(ctx context.Context, change func(*Keyset) (*Keyset, error)) (*Keyset, error) {
	if _, err := os.Stat(f.Path); err != nil { // a mistyped name gets no lock
		return nil, fmt.Errorf("codec: load the keyset: %w", err)
	}
	locked, err := lockFile(ctx, f.Path)
	if err != nil {
		return nil, fmt.Errorf("codec: change the keyset: %w", err)
	}
	defer locked.unlock()
	before, err := readKeysetFile(f.Path)
	if err != nil {
		return nil, err
	}
	defer clear(before)
	k, err := f.parse(before)
	if err != nil {
		return nil, err
	}
	if k, err = change(k); err != nil {
		return nil, err
	}
	data, err := f.encode(k)
	if err != nil {
		return nil, err
	}
	defer clear(data)
	err = locked.place(data, func(temporary string) error {
		now, err := readKeysetFile(f.Path)
		defer clear(now)
		if err == nil && !bytes.Equal(before, now) {
			err = ErrKeysetChanged
		}
		if err != nil {
			return err
		}
		return os.Rename(temporary, locked.path)
	})
	if err != nil {
		return nil, fmt.Errorf("codec: change the keyset: %w", err)
	}
	return k, nil
}

// Write saves a keyset, readable by its owner only. An existing file is replaced in one step,
// whatever is in it: a reader gets the old keyset or the new one, whole, even if the machine stops half-way. To
// change a keyset use [KeysetFile.Update].
func (f KeysetFile) Write(k *Keyset) error {
	return f.save("write", k, os.Rename)
}

// save writes the keyset to a file beside the one that it is to become, and has place put it there.
func (f KeysetFile) save(what string, k *Keyset, place func(temporary, path string) error) error {
	data, err := f.encode(k)
	if err != nil {
		return err
	}
	defer clear(data)
	locked, err := lockFile(context.Background(), f.Path)
	if err == nil {
		defer locked.unlock()
		err = locked.place(data, func(temporary string) error { return place(temporary, locked.path) })
	}
	if err != nil {
		return fmt.Errorf("codec: %s the keyset: %w", what, err)
	}
	return nil
}

// place writes a keyset to a new file beside the one that it is to become, and calls put
// to put it there. Who may read it is who could read the file it replaces, so that a server of another
// user than the one who changes its keys still can.
func (f *lockedFile) place(data []byte, put func(temporary string) error) error {
	dir, prefix, suffix := f.temporary()
	// CreateTemp gives the file the mode we want.
	t, err := os.CreateTemp(dir, prefix+"*"+suffix)
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	err = writeTo(t, data)
	if old, statErr := os.Stat(f.path); statErr == nil {
		err = errors.Join(err, keepOwner(t.Name(), old))
		if err == nil && lentByRoot(old) {
			err = os.Chmod(t.Name(), keysetMode|lentMode)
		}
	}
	if err == nil {
		err = put(t.Name())
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// CreateKeysetFile creates a keyset file in clear text with one fresh [XAES256GCM] key, and
// returns the keyset; see [KeysetFile.Create].
func CreateKeysetFile(path string) (*Keyset, error) {
	k, err := NewKeyset()
	if err != nil {
		return nil, err
	}
	if err := (KeysetFile{Path: path}).Create(k); err != nil {
		return nil, err
	}
	return k, nil
}

// Create saves a keyset like [KeysetFile.Write], but fails, with an error that
// matches [fs.ErrExist], if the file exists, also when several processes try at once:
// exactly one succeeds, and the others find a complete file.
func (f KeysetFile) Create(k *Keyset) error {
	return f.save("create", k, func(temporary, path string) error {
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

// encode returns what is in the file. A KMS that does not open what it has sealed would lose all keys.
func (f KeysetFile) encode(k *Keyset) ([]byte, error) {
	data, err := k.encode(f.KMS)
	if err != nil || f.KMS == nil {
		return data, err
	}
	if _, err := f.parse(data); err != nil {
		return nil, fmt.Errorf("codec: the KMS does not open what it has just encrypted, so nothing is written: %w", err)
	}
	return data, nil
}

// writeTo writes data to f, on to the disk, and closes f.
func writeTo(f *os.File, data []byte) error {
	_, err := f.Write(data)
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
