package reporeport

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

// counts are what a report knows of a history. They are bounded, as they travel in the token between
// turns.
type counts struct {
	Commits int `json:"commits"`
	Merges  int `json:"merges,omitzero"`
	// Oldest and Newest are the times of commits, in seconds.
	Oldest int64 `json:"oldest,omitzero"`
	Newest int64 `json:"newest,omitzero"`
	// Months is how many commits there are in each month, the newest first, beginning with Last, which
	// is counted from the year 0.
	Last    int   `json:"last,omitzero"`
	Months  []int `json:"months,omitempty"`
	Dirs    names `json:"dirs,omitempty"`
	Authors names `json:"authors,omitempty"`
	// Full: there are more names than are counted.
	Full bool `json:"full,omitzero"`
}

// names counts how often names occur.
type names map[string]int

// name is a name, or a month or a year, and how often it occurs.
type name struct {
	Name string
	N    int
}

// At most so many names are counted, those of the latest commits, and so many characters of each are kept:
// they have to fit into a token.
const (
	maxDirs       = 100
	maxDirName    = 48
	maxAuthors    = 256
	maxAuthorName = 32
)

const firstMonth = 1970 * 12 // older commits count there: no program was under version control

func monthOf(t time.Time) int {
	t = t.UTC()
	return t.Year()*12 + int(t.Month()) - 1
}

// add counts a commit and the directories that it changes.
func (c *counts) add(commit *gitrepo.Commit) {
	seconds := commit.When.Unix()
	if c.Commits == 0 {
		c.Oldest, c.Newest = seconds, seconds
	}
	c.Commits++
	c.Oldest, c.Newest = min(c.Oldest, seconds), max(c.Newest, seconds)
	if len(commit.Parents) > 1 {
		c.Merges++
	}
	// Months after the last, which only a wrong clock can bring, count as the last.
	month := c.Last - min(max(monthOf(commit.When), firstMonth), c.Last)
	for len(c.Months) <= month {
		c.Months = append(c.Months, 0)
	}
	c.Months[month]++
	c.count(&c.Authors, maxAuthors, cmp.Or(gitrepo.Line(commit.Author, maxAuthorName), "(no name)"))
	var dirs []string
	for _, d := range commit.Dirs {
		dirs = append(dirs, gitrepo.Line(d, maxDirName))
	}
	for _, d := range slices.Compact(dirs) {
		c.count(&c.Dirs, maxDirs, d)
	}
}

func (c *counts) count(of *names, most int, what string) {
	if *of == nil {
		*of = make(names)
	}
	if (*of)[what] == 0 && len(*of) == most {
		c.Full = true
		return
	}
	(*of)[what]++
}

// top returns the n names that occur most.
func (of names) top(n int) []name {
	var list []name
	for what, n := range of {
		list = append(list, name{what, n})
	}
	slices.SortFunc(list, func(a, b name) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Name, b.Name)) })
	return list[:min(n, len(list))]
}

// maxMonths is how many months a report shows. Longer histories it shows by the year.
const maxMonths = 60

// periods returns the commits by period, the oldest first, and what a period is.
func (c *counts) periods() (unit string, list []name) {
	unit = "month"
	if len(c.Months) > maxMonths {
		unit = "year"
	}
	for i, n := range slices.Backward(c.Months) {
		month := c.Last - i
		period := fmt.Sprintf("%d-%02d", month/12, month%12+1)
		if unit == "year" {
			period = fmt.Sprint(month / 12)
		}
		if len(list) == 0 || list[len(list)-1].Name != period {
			list = append(list, name{Name: period})
		}
		list[len(list)-1].N += n
	}
	return unit, list
}
