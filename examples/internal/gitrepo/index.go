package gitrepo

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// index is the index of a pack. It finds the name of what is at an offset in a sorted list,
// where go-git's makes a map that is four times as large as all else.
type index struct {
	*idxfile.MemoryIndex
	byOffset []located
}

// located is an object: where it is in the pack, and its number in the index.
type located struct {
	offset int64
	number uint32
}

// FindHash implements idxfile.Index. A delta says by its offset what it is a delta of.
func (x *index) FindHash(offset int64) (plumbing.Hash, error) {
	if x.byOffset == nil {
		if err := x.sort(); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	at, found := slices.BinarySearchFunc(x.byOffset, offset, func(l located, o int64) int { return cmp.Compare(l.offset, o) })
	if !found {
		return plumbing.ZeroHash, plumbing.ErrObjectNotFound
	}
	number := x.byOffset[at].number
	bucket := sort.Search(len(x.Fanout), func(b int) bool { return x.Fanout[b] > number })
	if bucket > 0 {
		number -= x.Fanout[bucket-1]
	}
	var hash plumbing.Hash
	copy(hash[:], x.Names[x.FanoutMapping[bucket]][int(number)*len(hash):])
	return hash, nil
}

// sort makes the list. It trusts go-git's decoder to have made as many names and offsets as
// the fanout table says, and nothing else.
func (x *index) sort() error {
	x.byOffset = make([]located, 0, x.Fanout[len(x.Fanout)-1])
	for bucket, upTo := range x.Fanout {
		for i := 0; uint32(len(x.byOffset)) < upTo; i++ {
			offset := int64(binary.BigEndian.Uint32(x.Offset32[x.FanoutMapping[bucket]][4*i:]))
			if large := offset & 0x7fffffff; large != offset {
				if 8*large+8 > int64(len(x.Offset64)) {
					return fmt.Errorf("%w: an offset out of range", idxfile.ErrMalformedIdxFile)
				}
				offset = int64(binary.BigEndian.Uint64(x.Offset64[8*large:]))
			}
			x.byOffset = append(x.byOffset, located{offset, uint32(len(x.byOffset))})
		}
	}
	slices.SortFunc(x.byOffset, func(a, b located) int { return cmp.Compare(a.offset, b.offset) })
	return nil
}
