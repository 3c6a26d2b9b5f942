// Package searchhistory is a tool that searches the history of a git repository, and gives
// what it finds in pages of twenty commits.
//
// It shows a result in parts (SEP-1003): each page is useful by itself, and its reader
// decides whether to come back for the next. Between two pages there is only the position in
// the history, in the token. A page that is asked for again is the same again, also when there
// are new commits.
package searchhistory

import (
	"fmt"
	"strings"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/saga"
)

type args struct {
	Text string `json:"text" minLength:"1" maxLength:"200" jsonschema:"what to look for in messages of commits and names of authors, as it stands; upper and lower case are alike"`
	Repo string `json:"repo,omitempty" jsonschema:"path of the git repository below the server's root; the root itself if empty"`
}

type state struct {
	// At is where the next page begins, and Found how many commits those before had.
	At    position `json:"at,omitzero"`
	Found int      `json:"found,omitzero"`
}

// position is a place in the history that begins at the commit Start: behind its first Visited commits.
type position struct {
	Start   string `json:"start,omitempty"`
	Visited int    `json:"visited,omitempty"`
}

const (
	perPage = 20 // commits found
	// maxFound is how many commits are given at most: a client that cannot take them page by page
	// gets all pages as one result.
	maxFound = 400
	// perTurn is how many commits are searched for a page: seconds' work.
	perTurn = 50_000
	// atLeast is how many are searched even if the turn has no time left.
	atLeast = 500
)

type turn = saga.Turn[args, state]

// New returns the tool search_history for the repositories under root.
func New(root string) saga.Definition { return search{root, perTurn}.tool() }

// search is the tool; tests search fewer commits for a page.
type search struct {
	root    string
	perTurn int
}

func (s search) tool() saga.Definition {
	return saga.Machine[args, state]{
		Info: saga.Info{
			Name:        "search_history",
			Title:       "Search a repository's history",
			Description: "Finds the commits of a git repository whose message or author mentions a text, the newest first, twenty at a time.",
			Annotations: &saga.ToolAnnotations{ReadOnlyHint: true},
			Yields:      true,
		},
		Start: s.start,
		Steps: saga.Steps[args, state]{"more": s.page},
	}
}

func (s search) start(t *turn) (saga.Next, error) {
	if strings.TrimSpace(t.Args.Text) == "" {
		return nil, saga.Failf("The text to look for is empty: say in the argument text what commits are to mention.")
	}
	repo, err := gitrepo.Open(t, s.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	newest, err := repo.Head(t)
	if err != nil {
		return nil, err
	}
	t.State.At = position{Start: newest.Hash}
	return s.page(t)
}

// page gives the next page: a part of the result, or its end. A page ends when it is full, when enough
// commits were searched, or with the history.
func (s search) page(t *turn) (saga.Next, error) {
	repo, err := gitrepo.Open(t, s.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	var found []string // lines of Markdown
	var back string    // the day of the last commit searched
	before, looked, more := t.State.Found, 0, false
	for c, err := range repo.Log(t, gitrepo.Log{From: t.State.At.Start, Skip: t.State.At.Visited, Limit: s.perTurn + 1}) {
		if err != nil {
			return nil, err
		}
		if looked == s.perTurn || looked >= atLeast && gitrepo.Hurry(t) {
			more = true
			break
		}
		line, ok := match(c, t.Args.Text)
		if ok && len(found) == perPage { // of which a full page need not know more
			more = true
			break
		}
		looked++
		back = day(c)
		if ok {
			found = append(found, line)
		}
	}
	t.State.At.Visited += looked
	t.State.Found += len(found)

	quoted := "“" + gitrepo.Markdown(gitrepo.Line(t.Args.Text, 60)) + "”"
	text := fmt.Sprintf("No commit mentions %s among those back to %s that were looked at for this page.", quoted, back)
	if len(found) > 0 {
		text = fmt.Sprintf("Commits %d to %d that mention %s, the newest first:\n\n%s", before+1, t.State.Found, quoted, strings.Join(found, "\n"))
	}
	switch {
	case more && t.State.Found < maxFound:
		return t.Yield("more", content.Text{Text: text})
	case more:
		text += fmt.Sprintf("\n\nNo more than %d are given. A longer text finds fewer.", t.State.Found)
	case repo.Shallow:
		text += fmt.Sprintf("\n\nThese are all of the %d commits of this shallow clone. `git fetch --unshallow` gets those that are older.", t.State.At.Visited)
	default:
		text += fmt.Sprintf("\n\nThat is all: %d of %d commits mention it.", t.State.Found, t.State.At.Visited)
	}
	return t.Finish(&content.Result{Content: content.Blocks{content.Text{Text: text}}})
}

// match shows a commit as a line of Markdown if it has the text, in its message or its author's name.
// A line of the message's body with the text is shown too.
func match(c *gitrepo.Commit, text string) (line string, ok bool) {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(text)) }
	line = fmt.Sprintf("- `%s` %s %s: %s", c.Hash[:10], day(c),
		gitrepo.Markdown(gitrepo.Line(c.Author, 40)), gitrepo.Markdown(gitrepo.Line(c.Subject, 120)))
	if has(c.Subject) || has(c.Author) {
		return line, true
	}
	for l := range strings.SplitSeq(c.Body, "\n") {
		if has(l) {
			return line + "\n  … " + gitrepo.Markdown(gitrepo.Line(l, 160)), true
		}
	}
	return "", false
}

func day(c *gitrepo.Commit) string { return c.When.UTC().Format("2006-01-02") }
