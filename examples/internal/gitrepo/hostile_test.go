//go:build unix

package gitrepo

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

// readAll reads all that this package reads of a repository.
func readAll(ctx context.Context, root string) error {
	r, err := Open(ctx, root, "")
	if err != nil {
		return err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if _, err = r.Tags(ctx); err != nil {
		return err
	}
	for _, failed := range r.Log(ctx, Log{From: head.Hash, Limit: 100, Dirs: true}) {
		err = failed
	}
	return err
}

// Nothing that a repository's configuration names is run: neither filters and viewers nor what would
// fetch what is missing.
func TestNothingOfTheRepositoryIsRun(t *testing.T) {
	root, ran := gittest.Import(t, gittest.Long(5)), filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o777))
	dot := filepath.Join(root, ".git")
	for name, value := range map[string]string{
		"core.fsmonitor": script, "core.pager": script, "pager.log": script, "core.editor": script, "core.sshCommand": script, "core.askPass": script,
		"core.gitProxy": script, "core.alternateRefsCommand": script, "diff.external": script, "gpg.program": script, "log.showSignature": "true",
		"diff.x.command": script, "diff.x.textconv": script, "diff.x.cachetextconv": "true", "filter.x.clean": script, "filter.x.smudge": script, "filter.x.process": script,
		"core.hooksPath": filepath.Dir(script), "alias.log": "!" + script, "alias.rev-parse": "!" + script, "credential.helper": "!" + script,
		"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.url": "ext::" + script, "remote.origin.promisor": "true",
		"remote.origin.uploadpack": script, "protocol.allow": "always", "protocol.ext.allow": "always", "core.worktree": filepath.Dir(script),
	} {
		gittest.Git(t, root, nil, "config", name, value)
	}
	require.NoError(t, errors.Join(os.WriteFile(filepath.Join(root, ".gitattributes"), []byte("* diff=x filter=x\n"), 0o666),
		os.WriteFile(filepath.Join(dot, "info", "attributes"), []byte("* diff=x filter=x\n"), 0o666)))
	require.NoError(t, readAll(t.Context(), root))

	// What is missing would be fetched.
	missing := gittest.RawCommit(t, root, []string{strings.Repeat("12", 20)}, "top", 1700000001)
	gittest.SetHead(t, root, missing)
	assert.Contains(t, gittest.Told(t, readAll(t.Context(), root)), "cannot be read")
	assert.NoFileExists(t, ran)
}

// A signed commit is not checked, which would run a program.
func TestSignaturesAreNotChecked(t *testing.T) {
	root, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	gittest.New(t, root)
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o777))
	gittest.Git(t, root, nil, "config", "gpg.program", script)
	gittest.Git(t, root, nil, "config", "log.showSignature", "true")
	tree := gittest.Git(t, root, nil, "rev-parse", "HEAD^{tree}")
	signed := fmt.Sprintf("tree %s\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nsigned\n", tree)
	gittest.SetHead(t, root, gittest.Git(t, root, []byte(signed), "hash-object", "-t", "commit", "-w", "--stdin"))
	require.NoError(t, readAll(t.Context(), root))
	assert.NoFileExists(t, ran)
}

// Objects that decompress to many times their size are refused, whatever they say of it.
func TestCommitsThatAreTooLarge(t *testing.T) {
	for _, name := range []string{"honest", "lying"} {
		root := t.TempDir()
		gittest.New(t, root)
		hash := gittest.RawCommit(t, root, nil, strings.Repeat("x", 40<<20), 1700000001)
		if name == "lying" {
			declareSize(t, filepath.Join(root, ".git", "objects", hash[:2], hash[2:]), 300)
		}
		gittest.SetHead(t, root, hash)
		takesLess(t, 20<<20, func() {
			err := readAll(t.Context(), root)
			assert.Contains(t, gittest.Told(t, err), "very large", name)
		})
	}
}

// declareSize has the file of a commit say another size than it has.
func declareSize(t *testing.T, path string, size int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	in, err := zlib.NewReader(bytes.NewReader(raw))
	require.NoError(t, err)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	_, body, _ := bytes.Cut(text, []byte{0})
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	fmt.Fprintf(z, "commit %d\x00%s", size, body)
	require.NoError(t, errors.Join(z.Close(), os.Chmod(path, 0o666), os.WriteFile(path, packed.Bytes(), 0o666)))
}

// What is no regular file is not waited for longer than the turn lasts, and what is too large is not read.
func TestStrangeFilesInARepository(t *testing.T) {
	for _, name := range []string{"HEAD", "packed-refs", "refs/heads/master", "refs/tags/v1", "config", "shallow", "objects/pack/pack-" + strings.Repeat("a", 40) + ".idx"} {
		for kind, create := range map[string]func(string) error{
			"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o666) },
			"directory": func(path string) error { return os.Mkdir(path, 0o777) },
			"huge": func(path string) error {
				f, err := os.Create(path)
				return errors.Join(err, f.Truncate(6<<30), f.Close())
			},
		} {
			t.Run(kind+" as "+name, func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				gittest.New(t, root)
				path := filepath.Join(root, ".git", filepath.FromSlash(name))
				require.NoError(t, errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o777), create(path)))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				err := readAll(ctx, root) // some can be done without
				assert.Less(t, time.Since(began), 20*time.Second)
				if err != nil && ctx.Err() == nil {
					assert.NotEmpty(t, gittest.Told(t, err))
				}
			})
		}
	}
}

// takesLess checks that what the heap holds never grows by limit bytes while f runs, where what can be
// collected does not count. On a busy machine more is measured than is held, so f has three tries.
func takesLess(t testing.TB, limit uint64, f func()) {
	t.Helper()
	grown := peak(f)
	for try := 1; try < 3 && grown >= limit; try++ {
		grown = min(grown, peak(f))
	}
	assert.Less(t, grown, limit)
}

func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // it is known of each collection
	// What is allocated while the collector runs counts as held, so on a busy machine f must not go on
	// while that has to wait.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	live := func() uint64 {
		now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(now)
		return now[0].Value.Uint64()
	}
	runtime.GC()
	before := live()
	most, stop, stopped := before, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, live())
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	runtime.GC()
	close(stop)
	<-stopped
	return max(most, live()) - before
}
