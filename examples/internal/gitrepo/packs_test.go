package gitrepo

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo/gitrepotest"
)

// What is at an offset is found, in packs of any size.
func TestIndex(t *testing.T) {
	var w idxfile.Writer
	require.NoError(t, w.OnHeader(3000))
	want := map[int64]plumbing.Hash{}
	for i := range 3000 {
		var hash plumbing.Hash
		binary.BigEndian.PutUint32(hash[:], uint32(i)*2654435761)
		hash[19] = 1
		offset := int64(i)*7919%3000*2_000_003 + 12 // up to 6 GB
		want[offset] = hash
		w.Add(hash, uint64(offset), 0)
	}
	require.NoError(t, w.OnFooter(plumbing.ZeroHash))
	made, err := w.Index()
	require.NoError(t, err)
	x := &index{MemoryIndex: made}
	for offset, hash := range want {
		found, err := x.FindHash(offset)
		require.NoError(t, err)
		require.Equal(t, hash, found)
		at, err := x.FindOffset(hash)
		require.NoError(t, err)
		require.Equal(t, offset, at)
	}
	_, err = x.FindHash(13)
	assert.ErrorIs(t, err, plumbing.ErrObjectNotFound)

	made.Offset64 = made.Offset64[:8]
	_, err = (&index{MemoryIndex: made}).FindHash(12)
	assert.ErrorIs(t, err, idxfile.ErrMalformedIdxFile)
}

// Objects are found in whichever pack they are, of more than are kept open, and among them
// loose ones.
func TestManyPacks(t *testing.T) {
	root := t.TempDir()
	gitrepotest.Git(t, root, nil, "init", "-q", "-b", "master")
	for i := range maxOpen + 5 {
		name := filepath.Join(root, "file")
		require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("words ", 100)+fmt.Sprint(i)), 0o666))
		gitrepotest.Git(t, root, nil, "add", "file")
		gitrepotest.Git(t, root, nil, "commit", "-q", "-m", fmt.Sprint(i))
		if i%4 != 0 {
			gitrepotest.Git(t, root, nil, "repack", "-q", "-d")
		}
	}
	list, err := filepath.Glob(filepath.Join(root, ".git/objects/pack/*.pack"))
	require.NoError(t, err)
	require.Greater(t, len(list), 10)
	r := opened(t, root)
	r.packs.open = maxOpen - 3 // as if so many were open already
	n := 0
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	for range 2 {
		for c, err := range r.Commits(t.Context(), head, nil) {
			require.NoError(t, err)
			entries, err := r.Tree(t.Context(), c.Tree)
			require.NoError(t, err)
			assert.Len(t, entries, 1)
			assert.LessOrEqual(t, r.packs.open, maxOpen)
			n++
		}
	}
	assert.Equal(t, 2*(maxOpen+5), n)
}

// An index that is broken is said to be, and not guessed from.
func TestBrokenIndex(t *testing.T) {
	root := gitrepotest.Import(t, gitrepotest.Long(20))
	list, err := filepath.Glob(filepath.Join(root, ".git/objects/pack/*.idx"))
	require.NoError(t, err)
	require.Len(t, list, 1)
	b, err := os.ReadFile(list[0])
	require.NoError(t, err)
	for at := 0; at < len(b); at += 97 {
		broken := append([]byte(nil), b...)
		broken[at] ^= 0x41
		require.NoError(t, os.Chmod(list[0], 0o666))
		require.NoError(t, os.WriteFile(list[0], broken, 0o666))
		_, _, err := opened(t, root).FromHead(t.Context())
		assert.Contains(t, err.Error(), "cannot be read", at)
	}
}
