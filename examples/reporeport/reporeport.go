// Package reporeport is a tool that reports on a git repository: it counts all commits of
// its history, by month, directory and author, asks which directories matter, has the
// client's model comment, and ends with a table, a chart and a file.
//
// It shows work that takes long. The history is counted in pieces, each a step function of
// its own that leaves counts and a position in the state: as a task, each is a checkpoint,
// and a server that dies loses one piece. A client that drives the tool itself gets as much
// of it in one turn as the turn has time for. The state is bounded, however long the history is.
package reporeport

import (
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type args struct {
	Repo string `json:"repo,omitempty" jsonschema:"path of the git repository below the server's root; the root itself if empty"`
}

type state struct {
	// Start is the commit where the history begins. Shallow: what is older is not in the clone.
	Start   string `json:"start,omitzero"`
	Shallow bool   `json:"shallow,omitzero"`
	Counts  counts `json:"counts,omitzero"`
	// Pieces is how many pieces were counted.
	Pieces int `json:"pieces,omitzero"`
	// Chosen are the directories that matter, and Comment is what the model says of them.
	Chosen  []string `json:"chosen,omitempty"`
	Comment string   `json:"comment,omitempty"`
}

type dirsForm struct {
	Directories []string `json:"directories" title:"Directories" jsonschema:"those that the report is to be about" minItems:"1" maxItems:"8"`
}

var (
	askDirs  = &steps.Form[dirsForm]{ID: "directories", Message: "Which directories matter?"}
	askModel = &steps.Sample{ID: "comment", Request: steps.SampleRequest{SystemPrompt: system, MaxTokens: 500}}
)

const (
	maxChosen  = 8  // directories in the report, as in the form
	preset     = 5  // of them, chosen unless the user chooses
	maxOffered = 20 // directories in the form
	maxComment = 4000
)

const system = "You comment on the history of a software project for people who know it. Say in one or two short paragraphs what the numbers show: " +
	"where work goes, how that has changed, what stands out. Do not repeat the numbers, and do not guess at what they do not show."

type turn = saga.Turn[args, state]

// New returns the tool repo_report for the repositories under root.
func New(root string) saga.Definition { return report{root, perPiece, maxPieces}.tool() }

// report is the tool. Tests count in smaller pieces.
type report struct {
	root                string
	perPiece, maxPieces int
}

func (r report) tool() saga.Definition {
	return saga.Machine[args, state]{
		Info: saga.Info{
			Name:        "repo_report",
			Title:       "Report on a repository",
			Description: "Reports on the whole history of a git repository: commits by month, directory and author, as a table, a chart and a CSV file. Asks which directories matter, and has the client's model comment where there is one.",
			Annotations: &saga.ToolAnnotations{ReadOnlyHint: true},
			Asks:        []steps.Question{askDirs, askModel},
			Tasks:       saga.Tasks{Mode: saga.TasksOptional},
			Revision:    1,
		},
		Start: r.start,
		Steps: saga.Steps[args, state]{
			"count": r.count, "choose": r.choose, "chosen": r.chosen, "comment": r.comment, "commented": r.commented, "report": r.report,
		},
	}
}

// start finds out where the history begins.
func (r report) start(t *turn) (saga.Next, error) {
	repo, err := gitrepo.Open(t, r.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	newest, err := repo.Head(t)
	if err != nil {
		return nil, err
	}
	t.State.Start, t.State.Shallow = newest.Hash, repo.Shallow
	t.State.Counts = counts{Last: min(monthOf(newest.When), monthOf(t.Now()))}
	return t.Goto("count")
}

const (
	// perPiece is how many commits are counted between two checkpoints: about a second's
	// work.
	perPiece = 5000
	// maxPieces is how many pieces are counted in one turn.
	maxPieces = 500
	// atLeast is how many commits a piece counts even if the turn has no time left.
	atLeast = 500
)

func (r report) count(t *turn) (saga.Next, error) {
	repo, err := gitrepo.Open(t, r.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	counts, n := &t.State.Counts, 0
	for c, err := range repo.Log(t, gitrepo.Log{From: t.State.Start, Skip: counts.Commits, Limit: r.perPiece, Dirs: true}) {
		if err != nil {
			return nil, err
		}
		counts.add(c)
		if n++; n >= atLeast && gitrepo.Hurry(t) {
			return t.Pause("count")
		}
		if counts.Commits%500 == 0 {
			t.Progress(float64(counts.Commits), 0, fmt.Sprintf("%d commits counted, back to %s", counts.Commits, c.When.UTC().Format("January 2006")))
		}
	}
	t.State.Pieces++
	switch {
	case n < r.perPiece:
		return t.Goto("choose")
	case gitrepo.Hurry(t), t.State.Pieces%r.maxPieces == 0:
		return t.Pause("count")
	}
	return t.Goto("count")
}

// choose asks which directories matter, if the client can be asked and there is something to choose.
func (r report) choose(t *turn) (saga.Next, error) {
	top := t.State.Counts.Dirs.top(maxOffered)
	choices, chosen := make([]steps.Choice, len(top)), []string{}
	for i, d := range top {
		choices[i] = steps.Choice{Value: d.Name, Title: fmt.Sprintf("%s (%s)", shown(d.Name), number(d.N, "commit"))}
		if i < preset {
			chosen = append(chosen, d.Name)
		}
	}
	if len(top) < 2 || !t.Can(steps.Features{Forms: true}) {
		t.State.Chosen = chosen
		return t.Goto("comment")
	}
	message := fmt.Sprintf("%s are counted. Which directories matter?", number(t.State.Counts.Commits, "commit"))
	return t.Ask("chosen", askDirs.With(steps.Message(message), steps.Choices("directories", choices...), steps.Default("directories", chosen)))
}

func (r report) chosen(t *turn) (saga.Next, error) {
	form, err := askDirs.Answer(t)
	if err != nil {
		return nil, err
	}
	t.State.Chosen = form.Directories
	return t.Goto("comment")
}

// comment has the model comment, if there is one.
func (r report) comment(t *turn) (saga.Next, error) {
	if !t.Can(steps.Features{Sampling: true}) {
		return t.Goto("report")
	}
	return t.Ask("commented", askModel.With(steps.Promptf("%s", t.State.prompt())))
}

func (r report) commented(t *turn) (saga.Next, error) {
	said, err := askModel.Answer(t)
	switch {
	case errors.As(err, new(*steps.ClientError)):
		t.State.Comment = "The model has not commented: it was refused, or it failed."
	case err != nil:
		return nil, err
	default:
		t.State.Comment = gitrepo.Clip(said.Text(), maxComment)
	}
	return t.Goto("report")
}

func (r report) report(t *turn) (saga.Next, error) {
	return t.Finish(&content.Result{Content: content.Blocks{
		content.Text{Text: t.State.markdown(t.Args.Repo)},
		content.Image{Data: t.State.chart(), MIMEType: "image/svg+xml"},
		content.EmbeddedResource{URI: "repo-report://" + t.ID().String() + "/commits.csv", MIMEType: "text/csv", Text: t.State.csv()},
	}})
}
