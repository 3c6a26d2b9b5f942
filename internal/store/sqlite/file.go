package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// createFile makes an empty file that only its owner can read, in a directory that is made if it is
// missing, or checks the one that there is. SQLite gives the files beside it the same mode.
//
// It never opens a file that may be a database already: to close it would take SQLite's locks away
// from another connection of this process.
func createFile(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	// With the sticky bit, as /tmp has, others cannot replace the file or put one beside it.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("everybody can write in its directory (mode %04o): run chmod o-w %s", info.Mode().Perm(), dir)
	}
	info, err = os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := placeEmpty(dir, path); err != nil {
			return err
		}
		info, err = os.Stat(path)
	}
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

// placeEmpty creates an empty file, unless another process is quicker. SQLite makes its name last when
// it syncs the directory for the first of the files beside it.
func placeEmpty(dir, path string) error {
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// A file system without hard links.
	f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// files knows the database file and its -wal file again.
type files struct {
	path    string
	db, wal os.FileInfo
}

// identify remembers the files that SQLite has open.
func identify(path string) (f *files, err error) {
	f = &files{path: path}
	if f.db, err = os.Stat(path); err != nil {
		return nil, err
	}
	f.wal, err = os.Stat(path + "-wal")
	return f, err
}

// check returns the size of the -wal file, or [errMoved] if the files are not those that were opened.
func (f *files) check() (walSize int64, err error) {
	if _, err := same(f.path, f.db); err != nil {
		return 0, err
	}
	wal, err := same(f.path+"-wal", f.wal)
	if err != nil {
		return 0, err
	}
	return wal.Size(), nil
}

func same(path string, then os.FileInfo) (os.FileInfo, error) {
	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(then, now) {
		return nil, errMoved
	}
	return now, err
}
