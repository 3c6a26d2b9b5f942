package releasenotes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

func TestNamesOfFiles(t *testing.T) {
	for name, want := range map[string]string{
		"x.md": "x.md", "docs/x.txt": "docs/x.txt", `docs\x.md`: "docs/x.md", "./x.md": "x.md", "a/../x.MD": "x.MD", "x.md/.": "x.md",
	} {
		got, err := cleanFile(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, got)
	}
	for name, why := range map[string]string{
		"x.md/": "directory", `x.md\`: "directory", "docs/x.md//": "directory",
		"../x.md": "not inside", "/x.md": "not inside", `\x.md`: "not inside", "a/../../x.md": "not inside",
		".git/x.md": "hidden", "a/.b/x.md": "hidden", ".md": "hidden", "x.sh": "must end", "x": "must end", "x.md/y": "must end",
	} {
		_, err := cleanFile(name)
		assert.Contains(t, gittest.Told(t, err), why, name)
	}
}

// A call with a name that is none leaves nothing behind.
func TestNoTraceOfABadName(t *testing.T) {
	root := t.TempDir()
	gittest.New(t, root)
	for _, name := range []string{"x.md/", "new/x.md/"} {
		got := sagatest.Play(t, New(root), map[string]string{"file": name})
		assert.Contains(t, got.Text(), "is the name of a directory")
	}
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, left, 1, ".git alone")
}

// textOf reads a file of the test.
func textOf(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(b)
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text, replaceable string) string {
		other, err := write(dir, name, text, replaceable)
		require.NoError(t, err)
		return other
	}
	assert.Empty(t, put("docs/x.md", "one", ""))
	assert.Equal(t, "one", textOf(t, dir, "docs/x.md"))
	assert.Empty(t, put("docs/x.md", "one", ""), "a turn that is repeated")
	other := put("docs/x.md", "two", "")
	assert.NotEmpty(t, other)
	assert.Equal(t, "one", textOf(t, dir, "docs/x.md"), "the user has not approved that")
	assert.Empty(t, put("docs/x.md", "two", other))
	assert.Equal(t, "two", textOf(t, dir, "docs/x.md"))
	assert.NotEmpty(t, put("docs/x.md", "three", other), "it was agreed to replace another text")
	assert.Equal(t, "two", textOf(t, dir, "docs/x.md"))
	assert.Empty(t, put("y.md", "three", other), "it has gone meanwhile")

	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	assert.Empty(t, left)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.md"), 0o777))
	require.NoError(t, os.Symlink("missing", filepath.Join(dir, "l.md")))
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "o.md")))
	for _, name := range []string{"d.md", "l.md", "o.md"} {
		_, err := write(dir, name, "text", other)
		assert.Contains(t, gittest.Told(t, err), "not a file", name)
	}
}

// A file is looked at only as far as notes go.
func TestHugeFilesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"largest.md": maxFile, "larger.md": maxFile + 1, "huge.md": 6 << 30} {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, errors.Join(f.Truncate(size), f.Close()))
	}
	other, err := write(dir, "largest.md", "text", "")
	require.NoError(t, err)
	assert.NotEmpty(t, other)
	for _, name := range []string{"larger.md", "huge.md"} {
		_, err := write(dir, name, "text", "")
		assert.Contains(t, gittest.Told(t, err), "too large", name)
	}
}
