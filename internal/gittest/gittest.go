// Package gittest makes git repositories for tests: small ones, large ones, and such as
// git itself would not make.
package gittest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// New makes a git repository with one commit.
func New(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o777))
	Git(t, dir, nil, "init", "-q", "-b", "master")
	SetHead(t, dir, LooseCommitAt(t, dir, nil, "Begin", 0, 1700000000))
}

// LooseCommit writes a commit of no files as a loose object, which may be one that git
// would not write: declared is what it says of its size, or 0 for the truth.
func LooseCommit(t testing.TB, dir string, parents []string, message string, declared int) string {
	t.Helper()
	return LooseCommitAt(t, dir, parents, message, declared, 1700000001)
}

// LooseCommitAt is [LooseCommit] at a time in seconds.
func LooseCommitAt(t testing.TB, dir string, parents []string, message string, declared int, seconds int64) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "tree %s\n", loose(t, dir, "tree", "", 0))
	for _, p := range parents {
		fmt.Fprintf(&text, "parent %s\n", p)
	}
	fmt.Fprintf(&text, "author Ann <ann@example.com> %d +0000\ncommitter Ann <ann@example.com> %[1]d +0000\n\n%s", seconds, message)
	return loose(t, dir, "commit", text.String(), declared)
}

// loose writes a loose object.
func loose(t testing.TB, dir string, kind, text string, declared int) string {
	t.Helper()
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(text), text))
	if declared == 0 {
		declared = len(text)
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	fmt.Fprintf(z, "%s %d\x00%s", kind, declared, text)
	require.NoError(t, z.Close())
	name := hex.EncodeToString(sum[:])
	object := filepath.Join(dir, ".git", "objects", name[:2], name[2:])
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(object), 0o777), os.WriteFile(object, packed.Bytes(), 0o666)))
	return name
}

// SetHead has a commit checked out, on the branch master.
func SetHead(t testing.TB, dir string, hash string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "refs", "heads", "master"), []byte(hash+"\n"), 0o666))
}

// TakesLess checks that what the heap holds never grows by limit bytes while f runs, where what can be
// collected does not count. On a busy machine more is measured than is held, so f has three tries.
func TakesLess(t testing.TB, limit uint64, f func()) {
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

// Told returns what the caller reads of a tool's error.
func Told(t testing.TB, err error) string {
	t.Helper()
	require.Error(t, err)
	fails := saga.Machine[struct{}, struct{}]{
		Info:  saga.Info{Name: "fails"},
		Start: func(*saga.Turn[struct{}, struct{}]) (saga.Next, error) { return nil, err },
	}
	return sagatest.Play(t, fails, nil).Text()
}
