package codec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// lockTimeout is how long a change waits for others, which hold the lock for some
	// milliseconds unless they hang.
	lockTimeout = 10 * time.Second
	// lockPause is how long to wait before trying again to get the lock.
	lockPause = 5 * time.Millisecond
)

// lockedFile is a keyset file that only its holder changes, as long as all processes use
// this package.
type lockedFile struct {
	// path is where the file is, behind all symbolic links: of a link, the file that
	// it leads to is replaced, not the link.
	path string
	lock *flock.Flock
}

// lockFile locks the keyset file at path, which need not exist, and removes what
// earlier writers left behind. What is locked is a file beside it, as the keyset
// itself is replaced by each change. That one stays: to remove it would let two
// writers lock two files of the same name.
func lockFile(ctx context.Context, path string) (*lockedFile, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dir, name := filepath.Split(path)
	f := &lockedFile{path: path, lock: flock.New(filepath.Join(dir, "."+name+".lock"), flock.SetPermissions(keysetMode))}
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, fmt.Errorf("another process has locked %s for longer than %v: "+
		"end it, and try again", f.lock.Path(), lockTimeout))
	defer cancel()
	if _, err := f.lock.TryLockContext(ctx, lockPause); err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, fs.ErrPermission):
			err = fmt.Errorf("the directory of the keyset has to be writable, for a file by which writers wait for each other: %w", err)
		}
		return nil, err
	}
	// Others who may write in the directory must be able to lock, also after root did.
	if owner, err := os.Stat(filepath.Clean(dir)); err == nil {
		_ = keepOwner(f.lock.Path(), owner)
	}
	if err := f.removeLeftovers(); err != nil {
		f.unlock()
		return nil, err
	}
	return f, nil
}

func (f *lockedFile) unlock() { _ = f.lock.Close() }

// temporary is the pattern of the names that a keyset has while it is written.
func (f *lockedFile) temporary() (dir, prefix, suffix string) {
	dir, name := filepath.Split(f.path)
	return filepath.Clean(dir), "." + name + ".", ".tmp"
}

// removeLeftovers removes the files of writers that were killed: they hold keys in
// the clear. They are no longer being written, as each writer has the lock.
func (f *lockedFile) removeLeftovers() error {
	dir, prefix, suffix := f.temporary()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		middle, ours := strings.CutPrefix(e.Name(), prefix)
		middle, tmp := strings.CutSuffix(middle, suffix)
		if !ours || !tmp || middle == "" || strings.Trim(middle, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		err := os.Remove(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // another user's
			return fmt.Errorf("a file with keys was left behind and cannot be removed: %w", err)
		}
	}
	return nil
}
