package releasenotes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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
		"../x.md": "not inside", "/x.md": "not inside", `\x.md`: "not inside", "a/../../x.md": "not inside", "": "hidden",
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
		other, err := write(dir, name, text, "id", replaceable)
		require.NoError(t, err)
		return other
	}
	assert.Empty(t, put("docs/x.md", "one", ""))
	assert.Equal(t, "one", textOf(t, dir, "docs/x.md"))
	assert.Empty(t, put("docs/x.md", "one", ""), "a turn that is repeated")
	other := put("docs/x.md", "two", "")
	assert.NotEmpty(t, other)
	assert.Equal(t, "one", textOf(t, dir, "docs/x.md"), "nobody has approved that")
	assert.Empty(t, put("docs/x.md", "two", other))
	assert.Equal(t, "two", textOf(t, dir, "docs/x.md"))
	assert.NotEmpty(t, put("docs/x.md", "three", other), "it was agreed to replace another text")
	assert.Equal(t, "two", textOf(t, dir, "docs/x.md"))
	assert.Empty(t, put("y.md", "three", other), "it has gone meanwhile")

	// What a turn left that was cut off between its last steps.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "y.md.id.ABC.tmp"), []byte("three"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "y.md.other.ABC.tmp"), []byte("three"), 0o666))
	assert.Empty(t, put("y.md", "three", ""))
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "y.md.other.ABC.tmp")}, left, "another saga's")

	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.md"), 0o777))
	require.NoError(t, os.Symlink("missing", filepath.Join(dir, "l.md")))
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "o.md")))
	for _, name := range []string{"d.md", "l.md", "o.md"} {
		_, err := write(dir, name, "text", "id", other)
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
	other, err := write(dir, "largest.md", "text", "id", "")
	require.NoError(t, err)
	assert.NotEmpty(t, other)
	for _, name := range []string{"larger.md", "huge.md"} {
		_, err := write(dir, name, "text", "id", "")
		assert.Contains(t, gittest.Told(t, err), "too large", name)
	}
}

// Of many who write at once, branches of one saga too, whoever is told of success has
// left the own text; the others are told that another is there.
func TestOfManyWritersOneSucceeds(t *testing.T) {
	for name, id := range map[string]func(int) string{
		"sagas":              func(i int) string { return fmt.Sprint("id", i) },
		"branches of a saga": func(int) string { return "id" },
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 100 {
				dir := t.TempDir()
				var replaceable string
				if round%2 == 1 {
					require.NoError(t, os.WriteFile(filepath.Join(dir, "x.md"), []byte("old"), 0o666))
					replaceable = digest([]byte("old"))
				}
				const writers = 8
				found := make([]string, writers)
				var all sync.WaitGroup
				for i := range writers {
					all.Go(func() {
						var err error
						found[i], err = write(dir, "x.md", fmt.Sprint(i), id(i), replaceable)
						assert.NoError(t, err)
					})
				}
				all.Wait()
				final := textOf(t, dir, "x.md")
				for i, f := range found {
					if final == fmt.Sprint(i) {
						assert.Empty(t, f)
					} else if round%2 == 0 {
						assert.Equal(t, digest([]byte(final)), f)
					}
				}
				left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
				require.NoError(t, err)
				assert.Empty(t, left)
			}
		})
	}
}

// The same in the two steps of which the race consists.
func TestPlaceTakesNoPlaceThatIsTaken(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, root.WriteFile("temporary", []byte("mine"), 0o666))
	require.NoError(t, root.Mkdir("unlinkable", 0o777)) // as on a file system without links
	require.NoError(t, root.WriteFile("x.md", []byte("theirs"), 0o666))
	for _, temporary := range []string{"temporary", "unlinkable"} {
		err := place(root, temporary, "x.md", "mine")
		assert.ErrorIs(t, err, os.ErrExist)
		assert.Equal(t, "theirs", textOf(t, dir, "x.md"))
	}
	require.NoError(t, place(root, "unlinkable", "y.md", "mine"))
	assert.Equal(t, "mine", textOf(t, dir, "y.md"))
	assert.ErrorIs(t, place(root, "tidied", "z.md", "mine"), os.ErrNotExist, "somebody has tidied up")
}
