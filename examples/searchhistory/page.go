package searchhistory

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

const (
	perPage = 20 // commits found
	// perTurn is how many commits are looked at for a page: seconds' work. A page that has
	// looked at so many ends, however few it found.
	perTurn = 50_000
	// atLeast is how many are looked at even if the turn has no time left.
	atLeast = 500
)

// page is what one turn finds.
type page struct {
	found []string // lines of Markdown
	// next is where the next page begins, if more is true; behind the last commit found,
	// or looked at if the page is not full.
	next gitrepo.Position
	more bool
	// looked is how many commits all pages together looked at, back to the day back; missing
	// is whether the repository is a shallow clone, without what is older.
	looked  int
	back    string
	missing bool
}

// find looks for a text in the commits from a position on, until the page is full, the
// history ends, or it has looked at enough of it. Then it looks for one commit more: a page
// behind which nothing comes is the last.
func (s search) find(ctx context.Context, repo *gitrepo.Repository, text string, from gitrepo.Position) (*page, error) {
	if !repo.Has(ctx, from.Start) {
		return nil, cmp.Or(ctx.Err(), gitrepo.Gone(from.Start))
	}
	text = strings.ToLower(text)
	p := &page{next: from, missing: repo.Shallow, looked: from.Visited}
	for c, err := range repo.Log(ctx, gitrepo.Log{From: from.Start, Skip: from.Visited, Limit: s.perTurn + 1}) {
		if err != nil {
			return nil, err
		}
		if looked := p.looked - from.Visited; looked == s.perTurn || looked >= atLeast && gitrepo.Hurry(ctx) {
			p.more = true
			break
		}
		p.looked++
		p.back = day(c)
		where, matches := match(c, text)
		if !matches {
			continue
		}
		if len(p.found) == perPage {
			p.more = true
			return p, nil
		}
		p.found = append(p.found, line(c, where))
		if len(p.found) == perPage {
			p.next.Visited = p.looked
		}
	}
	if len(p.found) < perPage {
		p.next.Visited = p.looked
	}
	return p, nil
}

// match reports whether a commit has the text, in its message or its author's name, and
// returns the line of the message, if it is not the subject.
func match(c *gitrepo.Commit, lower string) (where string, matches bool) {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), lower) }
	if has(c.Subject) || has(c.Author) {
		return "", true
	}
	for l := range strings.SplitSeq(c.Body, "\n") {
		if has(l) {
			return l, true
		}
	}
	return "", false
}

func day(c *gitrepo.Commit) string { return c.When.UTC().Format("2006-01-02") }

// line shows a commit, and the line in which the text is.
func line(c *gitrepo.Commit, where string) string {
	shown := fmt.Sprintf("- `%s` %s %s: %s", c.Hash[:10], day(c),
		gitrepo.Markdown(gitrepo.Line(c.Author, 40)), gitrepo.Markdown(gitrepo.Line(c.Subject, 120)))
	if where != "" {
		shown += "\n  … " + gitrepo.Markdown(gitrepo.Line(where, 160))
	}
	return shown
}
