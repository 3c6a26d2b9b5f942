package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// createFile makes an empty file that only its owner can read, or checks the one that there is. SQLite gives the
// files beside it the same mode. It makes no directory, as a path that is mistyped would make one more ledger.
//
// It never opens a file that may be a database already: to close it would take SQLite's locks away
// from another connection of this process.
func createFile(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %s: make it, or name another file", dir)
	case err != nil:
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
		return fmt.Errorf("other users can read or write it (mode %04o): run chmod 600 '%s'", info.Mode().Perm(), strings.ReplaceAll(path, "'", `'\''`))
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
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// files knows the database file and its -wal file again, by their paths.
type files map[string]os.FileInfo

// identify remembers the files that SQLite has open.
func identify(path string) (files, error) {
	db, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	wal, err := os.Stat(path + "-wal")
	return files{path: db, path + "-wal": wal}, err
}

// check returns [errMoved] if the files are not those that were opened.
func (f files) check() error {
	for path, then := range f {
		now, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(then, now) {
			return errMoved
		}
		if err != nil {
			return err
		}
	}
	return nil
}
