package releasenotes

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// history makes a repository of commits, one for each second given, with tags on them.
func history(t *testing.T, seconds []int64, tags map[string]int) (root string, hashes []string) {
	t.Helper()
	root = t.TempDir()
	gittest.Git(t, root, nil, "init", "-q", "-b", "master")
	for i, s := range seconds {
		hashes = append(hashes, gittest.RawCommit(t, root, hashes[max(0, i-1):], fmt.Sprint("Change ", i), 1700000000+s))
	}
	gittest.SetHead(t, root, hashes[len(hashes)-1])
	for name, i := range tags {
		gittest.Git(t, root, nil, "tag", name, hashes[i])
	}
	return root, hashes
}

func spansOf(t *testing.T, root string) (list []span) {
	t.Helper()
	r, err := gitrepo.Open(t.Context(), root, "")
	require.NoError(t, err)
	list, err = spans(t.Context(), r)
	require.NoError(t, err)
	for _, s := range list {
		commits, err := commits(t.Context(), r, s.From, s.To, 1)
		require.NoError(t, err)
		assert.NotEmpty(t, commits, s.Name)
	}
	return list
}

// Ranges go from a release to the one before it, and none of them is empty.
func TestRangesBetweenTags(t *testing.T) {
	for name, c := range map[string]struct {
		seconds []int64
		tags    map[string]int
		want    []string
	}{
		"no tags":        {[]int64{0, 1}, nil, []string{"all"}},
		"one at HEAD":    {[]int64{0, 1}, map[string]int{"v1": 1}, []string{"up to v1"}},
		"one below HEAD": {[]int64{0, 1}, map[string]int{"v1": 0}, []string{"v1..HEAD", "up to v1"}},
		"in order":       {[]int64{0, 1, 2}, map[string]int{"a": 0, "b": 1}, []string{"b..HEAD", "a..b", "up to a"}},
		"of one second, names in order": {[]int64{0, 0, 0, 0}, map[string]int{"a": 0, "b": 1, "c": 3},
			[]string{"b..c", "a..b", "up to a"}},
		"of one second, names against the order": {[]int64{0, 0, 0, 0}, map[string]int{"c": 0, "b": 1, "a": 3},
			[]string{"b..a", "c..b", "up to c"}},
		"of one second, names in no order": {[]int64{0, 5, 5, 5, 9}, map[string]int{"m": 0, "b": 1, "a": 2, "c": 3},
			[]string{"c..HEAD", "a..c", "b..a", "m..b", "up to m"}},
		"a clock that was wrong between them": {[]int64{0, 9, 0}, map[string]int{"a": 0, "b": 2},
			[]string{"a..b", "up to a"}},
		"several on one commit": {[]int64{0, 1, 2}, map[string]int{"v1": 0, "latest": 1, "v2": 1},
			[]string{"latest..HEAD", "v1..latest", "v1..v2", "up to v1"}},
		"several on the first commit, and on HEAD": {[]int64{0}, map[string]int{"v1": 0, "v1.0": 0},
			[]string{"up to v1", "up to v1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			root, _ := history(t, c.seconds, c.tags)
			var names []string
			for _, s := range spansOf(t, root) {
				names = append(names, s.Name)
			}
			assert.Equal(t, c.want, names)
		})
	}
}

// If an older commit is checked out, what comes after it is not offered as unreleased.
func TestNoUnreleasedCommitsBelowTheLastTag(t *testing.T) {
	root, hashes := history(t, []int64{0, 1, 2}, map[string]int{"v1": 0, "v2": 2})
	gittest.SetHead(t, root, hashes[1])
	list := spansOf(t, root)
	require.NotEmpty(t, list)
	assert.Equal(t, "v1..v2", list[0].Name)
}

// A commit that is missing is said to be.
func TestHeadThatIsMissing(t *testing.T) {
	root, _ := history(t, []int64{0}, map[string]int{"v1": 0})
	gittest.SetHead(t, root, "0123456789012345678901234567890123456789")
	played := sagatest.Play(t, New(root), nil)
	assert.Contains(t, played.Text(), "the one that is checked out cannot be read")
}

// The form says what "all" is.
func TestWithoutTagsAllCommits(t *testing.T) {
	root := t.TempDir()
	gittest.New(t, root)
	played := sagatest.Player{Client: steps.Features{Forms: true}}.Play(t, New(root), nil, sagatest.Decline("range"))
	assert.Contains(t, played.Find("range").Form().Fields[0].Choices[0].Title, "all commits")
}
