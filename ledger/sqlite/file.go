package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// createFile makes an empty file that only its owner can read, in a directory that is made if it is
// missing, or checks the one that there is. SQLite gives the files beside it the same mode.
//
// It never opens a file that may be a database already: closing it would take SQLite's locks
// away from another handle in this process.
func createFile(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := checkDir(dir); err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := placeEmpty(dir, path); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users can read or write it (mode %04o): run chmod 600 %s", info.Mode().Perm(), path)
	}
	return nil
}

// checkDir refuses a directory in which everybody could replace the file or put others beside
// it. With the sticky bit, as /tmp has, they cannot.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("everybody can write in its directory (mode %04o): run chmod o-w %s", info.Mode().Perm(), dir)
	}
	return nil
}

// placeEmpty creates an empty file, on to the disk, unless another process is quicker.
func placeEmpty(dir, path string) error {
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		// A file system without hard links.
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// syncDir makes a new name last.
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
		return err
	}
	return nil
}

// errMoved: what is written would go into a file that nobody will find again.
var errMoved = errors.New("its file, or the one named -wal beside it, was removed or replaced while it was open: " +
	"put the old ones back, or start this program again")

// files knows the database file and its -wal file again.
type files struct {
	path, walPath string
	db, wal       os.FileInfo
}

// identify remembers the files that SQLite has open.
func identify(path string) (*files, error) {
	f := &files{path: path, walPath: path + "-wal"}
	var err error
	if f.db, err = os.Stat(path); err != nil {
		return nil, err
	}
	f.wal, err = os.Stat(f.walPath)
	return f, err
}

// check returns [errMoved] if the files are no longer those that were opened, and otherwise
// what is known of the -wal file.
func (f *files) check() (wal os.FileInfo, err error) {
	if _, err := same(f.path, f.db); err != nil {
		return nil, err
	}
	return same(f.walPath, f.wal)
}

func same(path string, then os.FileInfo) (now os.FileInfo, err error) {
	now, err = os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(then, now) {
		return nil, errMoved
	}
	return now, err
}
