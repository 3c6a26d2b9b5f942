package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// packs are the packed objects of a repository. go-git's own storage finds them too, but
// keeps four times as much in memory for it, and looks everywhere else first.
type packs struct {
	files *gitFiles
	cache cache.Object
	list  []*pack // nil until it is asked for
	open  int
}

type pack struct {
	name  string // of its file
	index *index
	file  *packfile.Packfile // nil if it is closed
}

const packDir = "objects/pack"

// maxOpen is how many packs are kept open at once.
const maxOpen = 16

// find returns the pack that has an object, and where it is there, or nil.
func (p *packs) find(hash plumbing.Hash) (*pack, int64, error) {
	if p.list == nil {
		list, err := p.load()
		if err != nil {
			return nil, 0, err
		}
		p.list = list
	}
	for _, pack := range p.list {
		if offset, err := pack.index.FindOffset(hash); err == nil {
			return pack, offset, nil
		} else if !errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, 0, err
		}
	}
	return nil, 0, nil
}

func (p *packs) load() ([]*pack, error) {
	list := []*pack{}
	names, err := p.files.ReadDir(packDir)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	for _, info := range names {
		name, is := strings.CutSuffix(info.Name(), ".idx")
		if !is {
			continue
		}
		index, err := p.readIndex(path.Join(packDir, info.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, &pack{name: path.Join(packDir, name+".pack"), index: index})
	}
	return list, nil
}

func (p *packs) readIndex(name string) (*index, error) {
	f, err := p.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	x := &index{MemoryIndex: idxfile.NewMemoryIndex()}
	return x, idxfile.NewDecoder(f).Decode(x.MemoryIndex)
}

// read returns an object of a pack that is no larger than limit.
func (p *packs) read(from *pack, hash plumbing.Hash, offset, limit int64) (plumbing.EncodedObject, error) {
	if o, ok := p.cache.Get(hash); ok && o.Size() <= limit {
		return o, nil
	}
	if from.file == nil {
		if p.open == maxOpen {
			p.close()
		}
		f, err := p.files.Open(from.name)
		if err != nil {
			return nil, err
		}
		from.file = packfile.NewPackfileWithCache(from.index, p.files, f, p.cache, 0)
		p.open++
	}
	p.files.object = maxObjectFile
	size, err := from.file.GetSizeByOffset(offset)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, errTooLarge
	}
	p.files.object = maxObjectFile
	return from.file.Get(hash)
}

func (p *packs) close() {
	for _, pack := range p.list {
		if pack.file != nil {
			_ = pack.file.Close()
			pack.file = nil
		}
	}
	p.open = 0
}

// looseFiles are the files of a repository without its packs, for go-git's storage.
type looseFiles struct{ *gitFiles }

func (l looseFiles) ReadDir(name string) ([]os.FileInfo, error) {
	if filepath.ToSlash(name) == packDir {
		return nil, fs.ErrNotExist
	}
	return l.gitFiles.ReadDir(name)
}
