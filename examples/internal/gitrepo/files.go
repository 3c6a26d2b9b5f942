package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-billy/v5"
)

// What is read of a repository, which may have been made to do harm. An object is
// compressed to a thousandth at best, so maxObjectFile also bounds what one takes in
// memory.
const (
	maxObjectFile = 256 << 10 // bytes read of packs and loose objects, for one object
	maxLoose      = 64 << 10  // the size of a loose object's file
	maxIndexes    = 256 << 20 // bytes of the indexes of packs, altogether
	maxOthers     = 32 << 20  // bytes of references and all else, altogether
	maxEntries    = 200_000   // names in one directory
)

// errTooLarge is a repository, or an object in it, beyond these limits.
var errTooLarge = errors.New("larger than is read")

// gitFiles are the files of a .git directory, for reading with go-git: a
// billy.Filesystem. Unlike
// go-git's own they never leave the directory, are regular files (opening a pipe
// would wait for ever), end with the context, and are read up to a limit.
type gitFiles struct {
	root *os.Root
	ctx  context.Context
	// What may still be read: of the object asked for, of indexes, of other files.
	object, indexes, others int64
}

func newGitFiles(ctx context.Context, dir string) (*gitFiles, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &gitFiles{root: root, ctx: ctx, object: maxObjectFile, indexes: maxIndexes, others: maxOthers}, nil
}

// left returns the limit that counts for a file.
func (g *gitFiles) left(name string) *int64 {
	switch slashed := filepath.ToSlash(name); {
	case path.Ext(slashed) == ".idx":
		return &g.indexes
	case strings.HasPrefix(slashed, "objects/"):
		return &g.object
	}
	return &g.others
}

func (g *gitFiles) Open(name string) (billy.File, error) { return g.OpenFile(name, os.O_RDONLY, 0) }

func (g *gitFiles) OpenFile(name string, flag int, _ os.FileMode) (billy.File, error) {
	if flag != os.O_RDONLY {
		return nil, billy.ErrReadOnly
	}
	if err := g.ctx.Err(); err != nil {
		return nil, err
	}
	if filepath.ToSlash(name) == "objects/info/alternates" {
		return nil, fs.ErrNotExist // go-git would follow it anywhere
	}
	f, info, err := OpenRegular(g.root, name)
	if err != nil {
		return nil, err
	}
	left := g.left(name)
	loose := left == &g.object && filepath.Ext(name) != ".pack"
	if (left != &g.object && info.Size() > *left) || (loose && info.Size() > maxLoose) {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, errTooLarge), f.Close())
	}
	return &gitFile{File: f, name: name, ctx: g.ctx, left: left}, nil
}

// OpenRegular opens a regular file for reading, and nothing else: the open of a pipe
// would wait until somebody writes.
func OpenRegular(root *os.Root, name string) (*os.File, os.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// ErrNotRegular is what [OpenRegular] says of a pipe, a directory and the like.
var ErrNotRegular = errors.New("not a regular file")

func (g *gitFiles) ReadDir(name string) ([]os.FileInfo, error) {
	if info, err := g.root.Stat(name); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	d, err := g.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var list []os.FileInfo
	for {
		some, err := d.Readdir(1000)
		list = append(list, some...)
		switch {
		case errors.Is(err, io.EOF):
			slices.SortFunc(list, func(a, b os.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
			return list, nil
		case err != nil:
			return nil, err
		case g.ctx.Err() != nil:
			return nil, g.ctx.Err()
		case len(list) > maxEntries:
			return nil, fmt.Errorf("directory %s: %w", name, errTooLarge)
		}
	}
}

func (g *gitFiles) Stat(name string) (os.FileInfo, error)  { return g.root.Stat(name) }
func (g *gitFiles) Lstat(name string) (os.FileInfo, error) { return g.root.Lstat(name) }
func (g *gitFiles) Readlink(name string) (string, error)   { return g.root.Readlink(name) }
func (g *gitFiles) Join(elem ...string) string             { return filepath.Join(elem...) }
func (g *gitFiles) Root() string                           { return g.root.Name() }

// Chroot implements billy.Chroot. Nothing that is read here has a root of its own.
func (g *gitFiles) Chroot(string) (billy.Filesystem, error) { return nil, billy.ErrNotSupported }

// Create and what follows implement billy.Filesystem: nothing is written.
func (g *gitFiles) Create(string) (billy.File, error)           { return nil, billy.ErrReadOnly }
func (g *gitFiles) TempFile(string, string) (billy.File, error) { return nil, billy.ErrReadOnly }
func (g *gitFiles) Rename(string, string) error                 { return billy.ErrReadOnly }
func (g *gitFiles) Remove(string) error                         { return billy.ErrReadOnly }
func (g *gitFiles) MkdirAll(string, os.FileMode) error          { return billy.ErrReadOnly }
func (g *gitFiles) Symlink(string, string) error                { return billy.ErrReadOnly }

// gitFile is one of the files. go-git reads a file from one goroutine at a time.
type gitFile struct {
	*os.File
	name string
	ctx  context.Context
	left *int64
}

// Name implements billy.File: by this name go-git opens a pack again.
func (f *gitFile) Name() string { return f.name }

func (f *gitFile) Read(p []byte) (int, error) {
	switch {
	case f.ctx.Err() != nil:
		return 0, f.ctx.Err()
	case *f.left <= 0:
		return 0, fmt.Errorf("%s: %w", f.name, errTooLarge)
	}
	n, err := f.File.Read(p[:min(int64(len(p)), *f.left)])
	*f.left -= int64(n)
	return n, err
}

func (f *gitFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p)) > *f.left {
		return 0, fmt.Errorf("%s: %w", f.name, errTooLarge)
	}
	n, err := f.File.ReadAt(p, off)
	*f.left -= int64(n)
	return n, err
}

// Lock implements billy.File. Readers need not lock.
func (f *gitFile) Lock() error   { return nil }
func (f *gitFile) Unlock() error { return nil }
