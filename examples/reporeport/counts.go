package reporeport

import (
	"cmp"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

// counts are what a report knows of a history. They are bounded, however long that is, as
// they travel in the token between turns.
type counts struct {
	Commits int `json:"commits"`
	Merges  int `json:"merges,omitzero"`
	// Unread is how many commits have directories that could not be read.
	Unread int `json:"unread,omitzero"`
	// Oldest and Newest are the times of commits, in seconds.
	Oldest int64 `json:"oldest,omitzero"`
	Newest int64 `json:"newest,omitzero"`
	Axis   axis  `json:"axis"`
	// All is how many commits there are in each period.
	All     series  `json:"all,omitempty"`
	Dirs    ranking `json:"dirs,omitzero"`
	Authors ranking `json:"authors,omitzero"`
}

// ranking are the names that occur most often. Of more names than it has room for, the ones
// that occur most are sure to be among them (the algorithm Space-Saving): a new name takes
// the place of the one that occurred least.
type ranking struct {
	List []ranked `json:"list,omitempty"`
	// Full: names have been dropped.
	Full bool `json:"full,omitzero"`
}

// ranked is a name that occurred N times since it was entered. Before that, it may have
// occurred, but not more often than Before.
type ranked struct {
	Name   string `json:"name"`
	N      int    `json:"n"`
	Before int    `json:"before,omitzero"`
	// Last is when it occurred last, in seconds.
	Last   int64  `json:"last,omitzero"`
	Series series `json:"series,omitempty"`
}

// Names in a ranking, and characters of one. All of them together have to fit into a token.
const (
	maxDirs       = 100
	maxDirName    = 48
	maxAuthors    = 256
	maxAuthorName = 32
)

// tally counts into counts. The index by name exists only while it does.
type tally struct {
	*counts
	dirs, authors map[string]int
}

func newTally(c *counts) *tally {
	return &tally{c, c.Dirs.index(), c.Authors.index()}
}

func (r *ranking) index() map[string]int {
	index := make(map[string]int, len(r.List))
	for i, e := range r.List {
		index[e.Name] = i
	}
	return index
}

// entry returns the entry of a name, which may be new.
func (r *ranking) entry(index map[string]int, most int, name string) *ranked {
	if i, ok := index[name]; ok {
		return &r.List[i]
	}
	if len(r.List) < most {
		index[name] = len(r.List)
		r.List = append(r.List, ranked{Name: name})
		return &r.List[len(r.List)-1]
	}
	r.Full = true
	least := 0
	for i := range r.List {
		if r.List[i].most() < r.List[least].most() {
			least = i
		}
	}
	delete(index, r.List[least].Name)
	index[name] = least
	r.List[least] = ranked{Name: name, Before: r.List[least].most()}
	return &r.List[least]
}

// most is how often a name can have occurred.
func (e *ranked) most() int { return e.N + e.Before }

// top returns the n names that occur most, by what is known for certain.
func (r *ranking) top(n int) []ranked {
	list := slices.SortedFunc(slices.Values(r.List), func(a, b ranked) int {
		return cmp.Or(b.N-a.N, cmp.Compare(a.Name, b.Name))
	})
	return list[:min(n, len(list))]
}

// commit counts a commit and the directories that it changes.
func (t *tally) commit(c *gitrepo.Commit, dirs []string) {
	seconds := c.When.Unix()
	if t.Commits == 0 {
		t.Oldest, t.Newest = seconds, seconds
	}
	t.Commits++
	t.Oldest, t.Newest = min(t.Oldest, seconds), max(t.Newest, seconds)
	if len(c.Parents) > 1 {
		t.Merges++
	}
	period := t.reach(c.When)
	t.All = t.All.add(period, 1)
	author := gitrepo.Line(c.Author, maxAuthorName)
	if author == "" {
		author = "(nobody)"
	}
	t.Authors.entry(t.authors, maxAuthors, author).N++
	names := make([]string, len(dirs))
	for i, d := range dirs {
		names[i] = gitrepo.Line(d, maxDirName)
	}
	for _, name := range slices.Compact(names) {
		e := t.Dirs.entry(t.dirs, maxDirs, name)
		e.N++
		e.Last = max(e.Last, seconds)
		e.Series = e.Series.add(period, 1)
	}
}

// reach returns the period of a time, for which it makes room.
func (t *tally) reach(when time.Time) int {
	for t.Axis.period(when) >= maxPeriods {
		longer := t.Axis.longer()
		t.All = t.All.refit(t.Axis, longer)
		for i := range t.Dirs.List {
			t.Dirs.List[i].Series = t.Dirs.List[i].Series.refit(t.Axis, longer)
		}
		if longer == t.Axis {
			return maxPeriods - 1
		}
		t.Axis = longer
	}
	return t.Axis.period(when)
}
