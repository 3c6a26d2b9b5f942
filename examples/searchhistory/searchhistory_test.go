package searchhistory

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// short are the hashes that a result shows.
var short = regexp.MustCompile("(?m)^- `([0-9a-f]{10})`")

// What cannot be searched is said to be.
func TestWhatCannotBeSearched(t *testing.T) {
	empty := t.TempDir()
	gittest.Git(t, empty, nil, "init", "-q")
	for name, c := range map[string]struct{ root, text, repo, want string }{
		"no git":      {t.TempDir(), "x", "", "not a git repository"},
		"no commits":  {empty, "x", "", "no commits yet"},
		"outside":     {empty, "x", "..", "not a path below"},
		"only spaces": {empty, " \t\n", "", "text to look for is empty"},
	} {
		played := sagatest.Play(t, New(c.root), args{Text: c.text, Repo: c.repo})
		assert.False(t, played.Good(), name)
		assert.Contains(t, played.Text(), c.want, name)
	}
	for name, text := range map[string]string{"empty": "", "megabytes": strings.Repeat("x", 4<<20)} {
		played := sagatest.Play(t, New(empty), args{Text: text})
		assert.False(t, played.Good(), name)
		assert.Contains(t, played.Text(), "Length", name)
		assert.Less(t, len(played.Text()), 1000, name)
	}
}

// A result on one page says that it is all.
func TestOnePage(t *testing.T) {
	root := gittest.Import(t, gittest.Long(50))
	played := sagatest.Play(t, New(root), args{Text: "Change 7 of"})
	require.True(t, played.Good(), played.Text())
	assert.Contains(t, played.Text(), "Commits 1 to 1 that mention “Change 7 of”")
	assert.Contains(t, played.Text(), "That is all: 1 of 50 commits")
	played = sagatest.Play(t, New(root), args{Text: "<script>\x00"})
	assert.Contains(t, played.Text(), `No commit mentions “\<script\>”`)

	clone := t.TempDir()
	gittest.Git(t, clone, nil, "clone", "-q", "--depth", "2", "file://"+root, ".")
	played = sagatest.Play(t, New(clone), args{Text: "change"})
	assert.Contains(t, played.Text(), "this shallow clone")
}

// Some clients are given all pages at once; there is an end to them.
func TestNotMoreThanAModelReads(t *testing.T) {
	root := gittest.Import(t, gittest.Long(maxFound+200))
	played := sagatest.Play(t, New(root), args{Text: "e"})
	require.True(t, played.Good(), played.Text())
	assert.Empty(t, played.Rounds)
	assert.Len(t, played.Result.Content, maxFound/perPage)
	assert.Contains(t, played.Text(), fmt.Sprintf("No more than %d are given", maxFound))
	different := map[string]bool{}
	for _, found := range short.FindAllString(played.Text(), -1) {
		different[found] = true
	}
	assert.Len(t, different, maxFound)
}

// A history that was rewritten cannot be gone on with.
func TestAHistoryThatIsRewritten(t *testing.T) {
	root := gittest.Import(t, gittest.Long(40))
	gone := state{At: position{Start: strings.Repeat("12", 20), Visited: 5}}
	played := sagatest.Player{}.At("more", gone).Play(t, New(root), args{Text: "e"})
	assert.False(t, played.Good())
	assert.Contains(t, played.Text(), "begin again")
}
