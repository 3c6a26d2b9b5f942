// Package gittest makes git repositories for tests: small ones, large ones, and such as
// git itself would not make.
package gittest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// New makes a git repository with one commit.
func New(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o777))
	Git(t, dir, nil, "init", "-q", "-b", "master")
	SetHead(t, dir, RawCommit(t, dir, nil, "Begin", 1700000000))
}

// RawCommit writes a commit of no files at a time in seconds, whose parents need not exist, and returns its hash.
func RawCommit(t testing.TB, dir string, parents []string, message string, seconds int64) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "tree %s\n", Git(t, dir, nil, "hash-object", "-t", "tree", "-w", "--stdin"))
	for _, p := range parents {
		fmt.Fprintf(&text, "parent %s\n", p)
	}
	fmt.Fprintf(&text, "author Ann <ann@example.com> %d +0000\ncommitter Ann <ann@example.com> %[1]d +0000\n\n%s", seconds, message)
	return Git(t, dir, []byte(text.String()), "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
}

// SetHead has a commit checked out, on the branch master.
func SetHead(t testing.TB, dir string, hash string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "refs", "heads", "master"), []byte(hash+"\n"), 0o666))
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
