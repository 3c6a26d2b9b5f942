// Package searchhistory is a tool that searches the history of a git repository, and gives
// what it finds in pages of twenty commits.
//
// It shows a result in parts (SEP-1003): each page is useful by itself, and its reader
// decides whether to come back for the next. Between two pages there is only the position in
// the history, in the token, and no server has to remember anything. A page that is asked for
// again is the same again, also when there are new commits.
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
	At    gitrepo.Position `json:"at,omitzero"`
	Found int              `json:"found,omitzero"`
}

// maxFound is how many commits are given at most: a client that cannot take them page by page gets all
// pages as one result.
const maxFound = 400

type turn = saga.Turn[args, state]

// New returns the tool search_history for the repositories under root.
func New(root string) saga.Definition { return search{root, perTurn}.tool() }

// search is the tool; tests look at fewer commits for a page.
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
		Steps: saga.Steps[args, state]{"more": s.more},
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
	newest, err := repo.Newest(t)
	if err != nil {
		return nil, err
	}
	t.State.At = gitrepo.Position{Start: newest.Hash}
	return s.page(t, repo)
}

// more continues when the client has come back.
func (s search) more(t *turn) (saga.Next, error) {
	repo, err := gitrepo.Open(t, s.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	return s.page(t, repo)
}

// page gives the next page: a part of the result, or its end.
func (s search) page(t *turn, repo *gitrepo.Repository) (saga.Next, error) {
	p, err := s.find(t, repo, t.Args.Text, t.State.At)
	if err != nil {
		return nil, err
	}
	before := t.State.Found
	t.State.At, t.State.Found = p.next, before+len(p.found)
	if p.more && t.State.Found < maxFound {
		return t.Yield("more", content.Text{Text: p.shown(t.Args.Text, before)})
	}
	return t.Finish(&content.Result{Content: content.Blocks{content.Text{Text: p.shown(t.Args.Text, before) + "\n\n" + p.end(t.State.Found)}}})
}

// shown is a page as people read it, behind before commits of pages before.
func (p *page) shown(text string, before int) string {
	quoted := "“" + gitrepo.Markdown(gitrepo.Line(text, 60)) + "”"
	if len(p.found) == 0 {
		return fmt.Sprintf("No commit mentions %s among those back to %s that were looked at for this page.", quoted, p.back)
	}
	return fmt.Sprintf("Commits %d to %d that mention %s, the newest first:\n\n%s", before+1, before+len(p.found), quoted, strings.Join(p.found, "\n"))
}

// end says why there are no more pages.
func (p *page) end(found int) string {
	switch {
	case p.more:
		return fmt.Sprintf("No more than %d are given. A longer text finds fewer.", found)
	case p.missing:
		return fmt.Sprintf("These are all of the %d commits of this shallow clone. `git fetch --unshallow` gets those that are older.", p.looked)
	}
	return fmt.Sprintf("That is all: %d of %d commits mention it.", found, p.looked)
}
