package releasenotes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// newRepository makes a git repository with one commit.
func newRepository(t *testing.T, dir string) {
	t.Helper()
	g, err := git.PlainInit(dir, false)
	require.NoError(t, err)
	tree, err := g.Worktree()
	require.NoError(t, err)
	by := &object.Signature{Name: "Ann", Email: "ann@example.com", When: time.Unix(1700000000, 0)}
	_, err = tree.Commit("Begin", &git.CommitOptions{Author: by, AllowEmptyCommits: true})
	require.NoError(t, err)
}

// told is what the caller reads of an error.
func told(t *testing.T, err error) string {
	t.Helper()
	var failure *saga.ToolError
	require.ErrorAs(t, err, &failure)
	return failure.Text
}

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
		assert.Contains(t, told(t, err), why, name)
	}
}

// A call with a name that is none leaves nothing behind.
func TestNoTraceOfABadName(t *testing.T) {
	root := t.TempDir()
	newRepository(t, root)
	for _, name := range []string{"x.md/", "new/x.md/"} {
		got := sagatest.Play(t, New(root), map[string]string{"file": name})
		assert.Contains(t, got.Text(), "is the name of a directory")
	}
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, left, 1, ".git alone")
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	r := &repository{dir: dir}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	put := func(name, text string, replace bool) existing {
		found, err := r.write(name, text, "id", replace)
		require.NoError(t, err)
		return found
	}
	assert.Equal(t, nothing, put("docs/x.md", "one", false))
	assert.Equal(t, "one", read("docs/x.md"))
	assert.Equal(t, sameText, put("docs/x.md", "one", false), "a turn that is repeated")
	assert.Equal(t, otherText, put("docs/x.md", "two", false))
	assert.Equal(t, "one", read("docs/x.md"), "nobody has approved that")
	assert.Equal(t, otherText, put("docs/x.md", "two", true))
	assert.Equal(t, "two", read("docs/x.md"))
	assert.Equal(t, nothing, put("y.md", "three", true), "it has gone meanwhile")

	// What a turn left that was cut off between its last steps.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "y.md.id.tmp"), []byte("three"), 0o666))
	assert.Equal(t, sameText, put("y.md", "three", false))

	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.md"), 0o777))
	require.NoError(t, os.Symlink("missing", filepath.Join(dir, "l.md")))
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "o.md")))
	for _, name := range []string{"d.md", "l.md", "o.md"} {
		_, err := r.write(name, "text", "id", true)
		assert.Contains(t, told(t, err), "not a file", name)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A file that appears at the very last moment is not overwritten: of many who write
// at once one succeeds, and the others are told.
func TestFilesThatAppearMeanwhileStay(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		const writers = 8
		found := make([]existing, writers)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				r := &repository{dir: dir}
				var err error
				found[i], err = r.write("x.md", fmt.Sprint(i), fmt.Sprint("id", i), false)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		b, err := os.ReadFile(filepath.Join(dir, "x.md"))
		require.NoError(t, err)
		for i, f := range found {
			want := otherText
			if string(b) == fmt.Sprint(i) {
				want = nothing
			}
			assert.Equal(t, want, f)
		}
	}
}

// The same in the two steps of which the race consists.
func TestPlaceTakesNoPlaceThatIsTaken(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, root.WriteFile("temporary", []byte("mine"), 0o666))
	require.NoError(t, root.WriteFile("x.md", []byte("theirs"), 0o666))
	for _, temporary := range []string{"temporary", "no such file"} { // the latter as if there were no links
		err := place(root, temporary, "x.md", "mine")
		assert.ErrorIs(t, err, os.ErrExist)
		b, err := root.ReadFile("x.md")
		require.NoError(t, err)
		assert.Equal(t, "theirs", string(b))
	}
	require.NoError(t, place(root, "no such file", "y.md", "mine"))
	b, err := root.ReadFile("y.md")
	require.NoError(t, err)
	assert.Equal(t, "mine", string(b))
}

// A repository whose data lie elsewhere may be a way out of the root.
func TestRepositoriesThatBorrowAreRefused(t *testing.T) {
	outside := t.TempDir()
	newRepository(t, outside)
	objects := filepath.Join(outside, ".git", "objects")
	borrowing := map[string]func(dot string) error{
		"alternates": func(dot string) error {
			info := filepath.Join(dot, "objects", "info")
			return errors.Join(os.MkdirAll(info, 0o777), os.WriteFile(filepath.Join(info, "alternates"), []byte(objects+"\n"), 0o666))
		},
		"alternates by a link": func(dot string) error {
			info := filepath.Join(dot, "objects", "info")
			return errors.Join(os.MkdirAll(info, 0o777), os.Symlink("/dev/null", filepath.Join(info, "alternates")))
		},
		"objects by a link": func(dot string) error {
			own := filepath.Join(dot, "objects")
			return errors.Join(os.RemoveAll(own), os.Symlink(objects, own))
		},
		"packs by a link": func(dot string) error {
			own := filepath.Join(dot, "objects", "pack")
			return errors.Join(os.RemoveAll(own), os.Symlink(filepath.Join(objects, "pack"), own))
		},
		"references by a link": func(dot string) error {
			own := filepath.Join(dot, "refs")
			return errors.Join(os.RemoveAll(own), os.Symlink(filepath.Join(outside, ".git", "refs"), own))
		},
	}
	for name, borrow := range borrowing {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			newRepository(t, filepath.Join(root, "project"))
			_, err := open(root, "project")
			require.NoError(t, err)
			require.NoError(t, borrow(filepath.Join(root, "project", ".git")))
			_, err = open(root, "project")
			assert.Contains(t, told(t, err), "keeps its data elsewhere")
		})
	}
	t.Run("by the environment", func(t *testing.T) {
		root := t.TempDir()
		newRepository(t, filepath.Join(root, "project"))
		g, err := git.PlainOpen(outside)
		require.NoError(t, err)
		tree, err := g.Worktree()
		require.NoError(t, err)
		theirs, err := tree.Commit("A secret", &git.CommitOptions{Author: &object.Signature{Name: "Bob", When: time.Unix(1700000001, 0)}, AllowEmptyCommits: true})
		require.NoError(t, err)
		t.Setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects)
		t.Setenv("GIT_OBJECT_DIRECTORY", objects)
		t.Setenv("GIT_DIR", filepath.Join(outside, ".git"))
		r, err := open(root, "project")
		require.NoError(t, err)
		_, _, err = r.commits(context.Background(), "", theirs.String(), 1)
		assert.Error(t, err, "git's environment is not heeded")
	})
}
