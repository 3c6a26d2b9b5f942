package gittest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// History writes commits for git's fast-import, which makes ten thousand of them in a
// second or two.
type History struct {
	out  bytes.Buffer
	mark int
}

// Change is a commit to write. The zero value of a member is left to the stream.
type Change struct {
	// Branch is where it is put, master if empty.
	Branch string
	// Author is a name; Seconds is the time of author and committer.
	Author  string
	Seconds int64
	// Encoding is the encoding that the commit says Message and Author are in.
	Encoding string
	Message  string
	// Parents are marks of commits before; none begins a history.
	Parents []int
	// Files are written with a text that no other commit writes.
	Files []string
}

// Commit writes a commit and returns its mark, by which others name it as a parent.
func (h *History) Commit(c Change) int {
	h.mark++
	branch, author := cmp.Or(c.Branch, "master"), cmp.Or(c.Author, "Ann")
	if len(c.Parents) == 0 {
		fmt.Fprintf(&h.out, "reset refs/heads/%s\n", branch)
	}
	fmt.Fprintf(&h.out, "commit refs/heads/%s\nmark :%d\nauthor %s <a@example.com> %d +0000\ncommitter %[3]s <a@example.com> %[4]d +0000\n", branch, h.mark, author, c.Seconds)
	if c.Encoding != "" {
		fmt.Fprintf(&h.out, "encoding %s\n", c.Encoding)
	}
	fmt.Fprintf(&h.out, "data %d\n%s\n", len(c.Message), c.Message)
	for i, p := range c.Parents {
		fmt.Fprintf(&h.out, "%s :%d\n", []string{"from", "merge"}[min(i, 1)], p)
	}
	for _, f := range c.Files {
		text := fmt.Sprintf("%d %s\n", h.mark, f)
		fmt.Fprintf(&h.out, "M 100644 inline %s\ndata %d\n%s\n", f, len(text), text)
	}
	fmt.Fprintln(&h.out)
	return h.mark
}

// Git runs git in a directory, without any configuration of the user's, and returns what it says.
// Without git the test is skipped.
func Git(t testing.TB, dir string, stdin []byte, args ...string) string {
	t.Helper()
	return run(t, dir, stdin, nil, args...)
}

// Commit makes a commit of all that is in the work tree, at a time in seconds.
func Commit(t testing.TB, dir, message string, seconds int64) {
	t.Helper()
	date := fmt.Sprintf("DATE=%d +0000", seconds)
	Git(t, dir, nil, "add", "-A")
	run(t, dir, nil, []string{"GIT_AUTHOR_" + date, "GIT_COMMITTER_" + date}, "commit", "-q", "-m", message)
}

func run(t testing.TB, dir string, stdin []byte, environment []string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: it makes the repository of this test")
	}
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A. Author", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_COMMITTER_NAME=A. Author", "GIT_COMMITTER_EMAIL=author@example.com")
	cmd.Env = append(cmd.Env, environment...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// Import makes a repository of the commits that write writes, in a new directory, with
// master checked out.
func Import(t testing.TB, write func(h *History)) (root string) {
	t.Helper()
	root = t.TempDir()
	Git(t, root, nil, "init", "-q", "-b", "master")
	var h History
	write(&h)
	Git(t, root, h.out.Bytes(), "fast-import", "--quiet", "--force")
	return root
}

// Long writes a history of n commits over years, with side branches that are merged,
// several authors and directories.
func Long(n int) func(h *History) {
	return func(h *History) {
		dirs := []string{"src/core", "src/net", "src/ui", "docs", "docs/api", "tests/unit", "tools", "cmd"}
		last, side := 0, 0
		for i := range n {
			c := Change{
				Author: fmt.Sprintf("Author %d", i*i%37), Seconds: 1300000000 + int64(i)*7000,
				Message: fmt.Sprintf("Change %d of %s\n\nBecause it was needed, for reason %d.\n", i, dirs[i%len(dirs)], i%101),
				Files:   []string{fmt.Sprintf("%s/part%d/file%d.txt", dirs[i%len(dirs)], i%5, i%83)},
			}
			if last > 0 {
				c.Parents = []int{last}
			}
			switch {
			case i%10 == 4 && last > 0:
				c.Branch = "side"
				side = h.Commit(c)
				continue
			case i%10 == 8 && side > 0:
				c.Parents = append(c.Parents, side)
				c.Message = fmt.Sprintf("Merge side at %d\n", i)
				side = 0
			}
			last = h.Commit(c)
		}
	}
}
