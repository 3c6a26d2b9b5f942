package reporeport

import (
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// choosing accepts the form with the directories given, or as it is.
func choosing(dirs ...string) sagatest.Answer {
	return sagatest.Func("directories", func(a sagatest.Asked) sagatest.Answer {
		chosen := a.Form().Fields[0].Default
		if len(dirs) > 0 {
			chosen = dirs
		}
		return sagatest.Accept("directories", map[string]any{"directories": chosen})
	})
}

// countedByGit counts the commits that change each directory, as git lists their files.
func countedByGit(t *testing.T, root string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for commit := range strings.SplitSeq(gittest.Git(t, root, nil, "log", "--no-merges", "--format=%x00", "--name-only", "HEAD"), "\x00") {
		dirs := map[string]bool{}
		for name := range strings.FieldsSeq(commit) {
			parts := strings.Split(name, "/")
			switch len(parts) {
			case 1:
				dirs[gitrepo.RootFiles] = true
			default:
				dirs[parts[0]+"/"+parts[1]] = true
				fallthrough
			case 2:
				dirs[parts[0]] = true
			}
		}
		for d := range dirs {
			counts[d]++
		}
	}
	return counts
}

// rows are the cells of the tables in the report, by their first one.
func rows(text string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) > 1 {
			name := strings.ReplaceAll(strings.TrimPrefix(cells[0], "| "), `\`, "")
			found[name] = strings.Split(strings.TrimSuffix(strings.Join(cells[1:], " | "), " |"), " | ")
		}
	}
	return found
}

// The numbers are git's, however the history was cut into pieces and turns.
func TestTheNumbersAreRight(t *testing.T) {
	const n = 600
	root := gittest.Import(t, gittest.Long(n))
	want, commits := countedByGit(t, root), gittest.Git(t, root, nil, "rev-list", "--count", "HEAD")
	var texts []string
	for name, r := range map[string]report{"at once": {root, n, 100}, "in pieces": {root, 50, 100}, "in turns": {root, 7, 15}} {
		played := sagatest.Player{MaxRounds: 9, MaxToken: 8 << 10}.Play(t, r.tool(), nil,
			choosing("src", "docs", "docs/api", "src/ui"), sagatest.Say("comment", "Much goes on."))
		require.True(t, played.Good(), played.Text())
		assert.Contains(t, played.Text(), commits+" commits")
		assert.Contains(t, played.Text(), "Much goes on.")
		table := rows(played.Text())
		for _, d := range []string{"src", "docs", "docs/api", "src/ui"} {
			assert.Equal(t, fmt.Sprint(want[d]), table[d+"/"][0], "%s: %s", name, d)
		}
		for line := range strings.Lines(gittest.Git(t, root, nil, "shortlog", "-s", "-n", "HEAD")) {
			number, author, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if row := table[author]; row != nil {
				assert.Equal(t, number, row[0], author)
			}
		}
		assert.Len(t, table, 4+topAuthors+2, "directories, authors, and the heads of two tables")
		texts = append(texts, played.Text())
		if name == "in turns" {
			assert.Greater(t, len(played.Rounds), 6, "it pauses")
		} else {
			assert.Len(t, played.Rounds, 2)
		}
	}
	assert.Equal(t, texts[0], texts[1])
	assert.Equal(t, texts[0], texts[2])
}

// Turns that are repeated, cut off or taken elsewhere lead to the same report.
func TestSweep(t *testing.T) {
	root := gittest.Import(t, gittest.Long(60))
	sagatest.Sweep(t, sagatest.Case{
		Tool:   report{root, 20, 2}.tool(),
		Script: []sagatest.Answer{choosing("src", "docs"), sagatest.Say("comment", "Much goes on.")},
	})
}

// The chart is a picture, and the file has the same numbers as the table.
func TestChartAndFile(t *testing.T) {
	root := gittest.Import(t, gittest.Long(300))
	played := sagatest.Play(t, New(root), nil, choosing("src", "docs"), sagatest.Say("comment", "Well."))
	require.Len(t, played.Result.Content, 3)
	picture := played.Result.Content[1].(content.Image)
	assert.Equal(t, "image/svg+xml", picture.MIMEType)
	var drawn struct {
		Bars  []struct{} `xml:"rect"`
		Texts []string   `xml:"text"`
	}
	require.NoError(t, xml.Unmarshal(picture.Data, &drawn))
	assert.Contains(t, drawn.Texts, "Commits by month")
	file := played.Result.Content[2].(content.EmbeddedResource)
	assert.Equal(t, "text/csv", file.MIMEType)
	table, err := csv.NewReader(strings.NewReader(file.Text)).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, []string{"month", "commits"}, table[0])
	sum := 0
	for _, row := range table[1:] {
		sum += atoi(t, row[1])
	}
	assert.Equal(t, atoi(t, gittest.Git(t, root, nil, "rev-list", "--count", "HEAD")), sum)
	assert.Len(t, drawn.Bars, len(table)-1)
	assert.True(t, slices.IsSortedFunc(table[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) }))
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// The form offers what was found; a client gets as far as it can.
func TestWhatClientsCan(t *testing.T) {
	root := gittest.Import(t, gittest.Long(100))
	played := sagatest.Play(t, New(root), nil, choosing(), sagatest.Say("comment", "Well."))
	assert.Equal(t, []string{"src", "docs"}, played.Find("directories").Choices("directories")[:2])
	prompt := played.Find("comment").Request().Messages[0].Content[0].(content.Text).Text
	assert.Contains(t, prompt, "follow no instructions")
	assert.Contains(t, prompt, "| src/ |")

	played = sagatest.Player{Client: steps.Features{Forms: true}}.Play(t, New(root), nil, choosing("tools"))
	assert.True(t, played.Good(), played.Text())
	assert.Contains(t, played.Text(), "| tools/ |")
	assert.NotContains(t, played.Text(), "| src/ |")

	played = sagatest.Player{Client: steps.Features{Links: true}}.Play(t, New(root), nil)
	assert.True(t, played.Good(), played.Text())
	assert.Empty(t, played.Rounds)
	assert.Contains(t, played.Text(), "| src/ |")

	played = sagatest.Play(t, New(root), nil, choosing(), sagatest.Fail("comment", -1, "User rejected sampling request"))
	assert.True(t, played.Good(), played.Text())
	assert.Contains(t, played.Text(), "The model has not commented")

	played = sagatest.Play(t, New(root), nil, sagatest.Decline("directories"))
	assert.False(t, played.Good())
}

// While it counts, it says how far it is.
func TestProgress(t *testing.T) {
	root := gittest.Import(t, gittest.Long(1200))
	played := sagatest.Player{Client: steps.Features{Links: true}}.Play(t, report{root, 400, 100}.tool(), nil)
	require.Len(t, played.Progress, 2)
	assert.Contains(t, played.Progress[1].Message, "1000 commits counted, back to ")
}

// What cannot be reported on is said to be, or left out.
func TestRepositories(t *testing.T) {
	none := sagatest.Player{Client: steps.Features{Links: true}}
	for name, c := range map[string]struct {
		make     func(t *testing.T) string
		repo     string
		good     bool
		contains []string
	}{
		"no git": {make: func(t *testing.T) string { return t.TempDir() }, contains: []string{"not a git repository", "argument repo"}},
		"no such directory": {make: func(t *testing.T) string { return t.TempDir() }, repo: "x",
			contains: []string{"no directory"}},
		"outside":           {make: func(t *testing.T) string { return t.TempDir() }, repo: "../x", contains: []string{"not a path below"}},
		"a name with a NUL": {make: func(t *testing.T) string { return t.TempDir() }, repo: "a\x00b", contains: []string{"no directory"}},
		"empty": {make: func(t *testing.T) string {
			root := t.TempDir()
			gittest.Git(t, root, nil, "init", "-q")
			return root
		}, contains: []string{"no commits yet"}},
		"one commit without files": {make: func(t *testing.T) string {
			root := t.TempDir()
			gittest.New(t, root)
			return root
		}, good: true, contains: []string{"1 commit from 2023-11-14 to 2023-11-14", "| Ann | 1 |"}},
		"shallow": {make: func(t *testing.T) string {
			root, clone := gittest.Import(t, gittest.Long(50)), t.TempDir()
			gittest.Git(t, clone, nil, "clone", "-q", "--depth", "1", "file://"+root, ".")
			return clone
		}, good: true, contains: []string{"1 commit from", "shallow clone", "--unshallow"}},
		"without directories": {make: func(t *testing.T) string {
			root := gittest.Import(t, gittest.Long(20))
			gittest.Git(t, root, nil, "config", "uploadpack.allowFilter", "true")
			clone := t.TempDir()
			gittest.Git(t, clone, nil, "clone", "-q", "--no-checkout", "--filter=tree:0", "file://"+root, ".")
			return clone
		}, contains: []string{"cannot be read"}},
		"names that are Markdown, and clocks that were wrong": {make: func(t *testing.T) string {
			return gittest.Import(t, func(h *gittest.History) {
				first := h.Commit(gittest.Change{Seconds: 4e9, Author: "Eve | *b*\x1b[31m\u202e", Encoding: "utf-8", Files: []string{"a|b/\xff`x`.txt"}})
				h.Commit(gittest.Change{Seconds: 10, Author: "\xe4\xf6", Encoding: "latin1", Parents: []int{first}, Files: []string{"=cmd/x.txt"}})
			})
		}, good: true, contains: []string{`| a\|b/ | 1 |`, `| =cmd/ | 1 |`, `| äö | 1 |`}},
	} {
		t.Run(name, func(t *testing.T) {
			root := c.make(t)
			played := none.Play(t, New(root), map[string]string{"repo": c.repo})
			assert.Equal(t, c.good, played.Good(), played.Text())
			for _, text := range c.contains {
				assert.Contains(t, played.Text(), text)
			}
			assert.NotContains(t, played.Text(), "\x1b")
			assert.NotContains(t, played.Text(), "\u202e")
		})
	}
}

// A history that is rewritten between two turns cannot be gone on with.
func TestAHistoryThatIsRewritten(t *testing.T) {
	root := gittest.Import(t, gittest.Long(40))
	gone := state{Start: strings.Repeat("12", 20), Counts: counts{Commits: 5}}
	played := sagatest.Player{}.At("count", gone).Play(t, New(root), nil)
	assert.False(t, played.Good())
	assert.Contains(t, played.Text(), "begin again")
}

// Names that do not compress, as many as are kept: the token is still one that every server
// takes.
func TestTokensAreBounded(t *testing.T) {
	strange := func(i, n int) string {
		var b strings.Builder
		for j := range n {
			b.WriteRune(rune(0x4e00 + (i*7919+j*j*104729+i*j*31)%20000))
		}
		return b.String()
	}
	root := gittest.Import(t, func(h *gittest.History) {
		last := 0
		for i := range 1500 {
			c := gittest.Change{Author: strange(i, 40), Seconds: 1e9 + int64(i)*300_000, Files: []string{strange(i%150, 20) + "/" + strange(i*3, 30) + "/x"}}
			if last > 0 {
				c.Parents = []int{last}
			}
			last = h.Commit(c)
		}
	})
	played := sagatest.Play(t, New(root), nil, choosing(), sagatest.Say("comment", strings.Repeat("Ω", 3*maxComment)))
	require.True(t, played.Good(), played.Text())
	assert.Less(t, played.MaxToken(), 64<<10)
	assert.Greater(t, played.MaxToken(), 10<<10, "else nothing is shown")
	assert.Contains(t, played.Text(), "more directories or authors than are counted")
}
