//go:build unix

package releasenotes

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/sagatest"
)

// looseCommit writes a commit as a loose object that is not what go-git would write.
func looseCommit(t *testing.T, dir string, parents []plumbing.Hash, message string, declared int) plumbing.Hash {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "tree %s\n", plumbing.ZeroHash)
	for _, p := range parents {
		fmt.Fprintf(&text, "parent %s\n", p)
	}
	fmt.Fprintf(&text, "author Ann <ann@example.com> 1700000001 +0000\ncommitter Ann <ann@example.com> 1700000001 +0000\n\n%s", message)
	hash := plumbing.ComputeHash(plumbing.CommitObject, []byte(text.String()))
	if declared == 0 {
		declared = text.Len()
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	fmt.Fprintf(z, "commit %d\x00%s", declared, text.String())
	require.NoError(t, z.Close())
	name := hex.EncodeToString(hash[:])
	object := filepath.Join(dir, ".git", "objects", name[:2], name[2:])
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(object), 0o777), os.WriteFile(object, packed.Bytes(), 0o666)))
	return hash
}

func setHead(t *testing.T, dir string, hash plumbing.Hash) {
	t.Helper()
	g, err := git.PlainOpen(dir)
	require.NoError(t, err)
	require.NoError(t, g.Storer.SetReference(plumbing.NewHashReference("refs/heads/master", hash)))
}

// peak returns by how much the heap grows at most while f runs.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what counts is held, not yet to be collected
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	most, stop, stopped := before.HeapInuse, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return most - before.HeapInuse
}

// Commits that decompress to many times their size are refused for what they say of
// their size, or take no more than a file of the size that is read can.
func TestCommitsThatAreTooLarge(t *testing.T) {
	for name, declared := range map[string]int{"honest": 0, "lying": 300} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			newRepository(t, root)
			setHead(t, root, looseCommit(t, root, nil, strings.Repeat("x", 100<<20), declared))
			grown := peak(func() {
				got := sagatest.Play(t, New(root), nil, sagatest.Func("range", func(a sagatest.Asked) sagatest.Answer {
					return sagatest.Accept("range", map[string]any{"range": "all"})
				}))
				assert.Contains(t, got.Text(), "is larger than this tool reads")
			})
			assert.Less(t, grown, uint64(20<<20))
		})
	}
}

// A commit with very many parents, each with a long message.
func TestCommitsThatWaitTakeLittle(t *testing.T) {
	root := t.TempDir()
	newRepository(t, root)
	var parents []plumbing.Hash
	for i := range 200 {
		parents = append(parents, looseCommit(t, root, nil, fmt.Sprint(i)+strings.Repeat("x", 200<<10), 0))
	}
	top := looseCommit(t, root, parents, "top", 0)
	r, err := open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.close()
	var list []*commit
	grown := peak(func() { list, _, err = r.commits(t.Context(), "", top.String(), maxCommits) })
	require.NoError(t, err)
	assert.Len(t, list, maxCommits)
	assert.Less(t, grown, uint64(30<<20), "40 MB of messages, and what is not collected yet")
}

// Tags are kept without the messages of their commits.
func TestManyTags(t *testing.T) {
	root := t.TempDir()
	newRepository(t, root)
	var packed strings.Builder
	for i := range 200 {
		hash := looseCommit(t, root, nil, fmt.Sprint(i)+strings.Repeat("x", 200<<10), 0)
		fmt.Fprintf(&packed, "%s refs/tags/v%d\n", hash, i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, ".git", "packed-refs"), []byte(packed.String()), 0o666))
	r, err := open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.close()
	var tags []tag
	grown := peak(func() { tags, err = r.tags(t.Context()) })
	require.NoError(t, err)
	assert.Len(t, tags, 200)
	assert.Less(t, grown, uint64(30<<20), "40 MB of messages, and what is not collected yet")
}

// What is no regular file is not waited for, and what is too large is not read.
func TestStrangeFilesInARepository(t *testing.T) {
	for _, name := range []string{"HEAD", "packed-refs", "refs/heads/master", "refs/tags/v1", "config", "objects/pack/pack-" + strings.Repeat("a", 40) + ".idx"} {
		for kind, make := range map[string]func(string) error{
			"pipe":      mkfifo,
			"directory": func(path string) error { return os.Mkdir(path, 0o777) },
			"huge": func(path string) error {
				f, err := os.Create(path)
				return errors.Join(err, f.Truncate(6<<30), f.Close())
			},
		} {
			t.Run(kind+" as "+name, func(t *testing.T) {
				root := t.TempDir()
				newRepository(t, root)
				path := filepath.Join(root, ".git", filepath.FromSlash(name))
				require.NoError(t, errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o777), make(path)))
				done := time.AfterFunc(20*time.Second, func() { panic("it hangs") })
				defer done.Stop()
				grown := peak(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					r, err := open(ctx, root, "")
					if err == nil {
						_, err = r.spans(ctx)
						r.close()
					}
					if err != nil { // some can be done without
						assert.NotEmpty(t, told(t, err))
					}
					assert.NoError(t, ctx.Err())
				})
				assert.Less(t, grown, uint64(40<<20))
			})
		}
	}
}

// Notes that are a pipe would hang whoever opens it.
func TestNotesThatAreAPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mkfifo(filepath.Join(dir, "x.md")))
	_, err := write(dir, "x.md", "text", "id", "")
	assert.Contains(t, told(t, err), "not a file")
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, _, err = openRegular(root, "x.md") // it became one after it was looked at
	assert.ErrorIs(t, err, errNotRegular)
}

// Reading ends with the turn, and is not taken for a fault of the repository.
func TestReadingEndsWithTheContext(t *testing.T) {
	root := t.TempDir()
	newRepository(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := open(ctx, root, "")
	require.NoError(t, err)
	defer r.close()
	head, err := r.head(ctx)
	require.NoError(t, err)
	cancel()
	_, _, err = r.commits(ctx, "", head.String(), 1)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = r.files.Open("HEAD")
	assert.ErrorIs(t, err, context.Canceled)
	_, err = open(ctx, root, "")
	assert.ErrorIs(t, err, context.Canceled)
}

// Alternates that appear after the repository was looked at are not followed.
func TestAlternatesAreNotFollowed(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	newRepository(t, outside)
	newRepository(t, root)
	theirs := looseCommit(t, outside, nil, "A secret", 0)
	r, err := open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.close()
	info := filepath.Join(root, ".git", "objects", "info")
	require.NoError(t, errors.Join(os.MkdirAll(info, 0o777),
		os.WriteFile(filepath.Join(info, "alternates"), []byte(filepath.Join(outside, ".git", "objects")+"\n"), 0o666)))
	_, err = r.commit(t.Context(), theirs)
	assert.ErrorIs(t, err, plumbing.ErrObjectNotFound)
	_, err = r.files.Open("../../etc/hostname")
	assert.Error(t, err)
	assert.NotErrorIs(t, err, fs.ErrNotExist)
}

// A repository as git packs it, with deltas, reads as before it was packed.
func TestPackedRepository(t *testing.T) {
	root := t.TempDir()
	newRepository(t, root)
	g, err := git.PlainOpen(root)
	require.NoError(t, err)
	tree, err := g.Worktree()
	require.NoError(t, err)
	for i := range 30 {
		by := &object.Signature{Name: "Ann", Email: "ann@example.com", When: time.Unix(1700000000+int64(i), 0)}
		_, err := tree.Commit(fmt.Sprintf("Commit %d\n\n%s", i, strings.Repeat("the same words again ", 100)), &git.CommitOptions{Author: by, AllowEmptyCommits: true})
		require.NoError(t, err)
	}
	read := func() (subjects []string) {
		r, err := open(t.Context(), root, "")
		require.NoError(t, err)
		defer r.close()
		head, err := r.head(t.Context())
		require.NoError(t, err)
		list, _, err := r.commits(t.Context(), "", head.String(), maxCommits)
		require.NoError(t, err)
		for _, c := range list {
			subjects = append(subjects, c.subject)
		}
		return subjects
	}
	loose := read()
	require.Len(t, loose, 31)
	require.NoError(t, g.RepackObjects(&git.RepackConfig{OnlyDeletePacksOlderThan: time.Now()}))
	left, err := filepath.Glob(filepath.Join(root, ".git", "objects", "??"))
	require.NoError(t, err)
	for _, dir := range left {
		require.NoError(t, os.RemoveAll(dir))
	}
	assert.Equal(t, loose, read())
}
func mkfifo(path string) error { return syscall.Mkfifo(path, 0o666) }
