// Package releasenotes is a tool that writes release notes: it reads a real git
// repository, asks which range of commits the notes are for, has the client's
// model draft them, shows the draft for approval, and writes the file. Nothing
// is changed before the user has approved.
package releasenotes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type args struct {
	Repo string `json:"repo,omitempty" jsonschema:"path of the git repository below the server's root; the root itself if empty"`
	File string `json:"file,omitempty" jsonschema:"file to write, inside the repository, ending in .md or .txt; RELEASE_NOTES.md if empty"`
}

type state struct {
	Spans []span `json:"spans,omitempty"` // offered to the user
	Span  span   `json:"span,omitzero"`   // chosen by the user
	Notes string `json:"notes,omitempty"`
	// Old is the digest of the text that the user was asked to have replaced.
	Old string `json:"old,omitempty"`
}

type rangeForm struct {
	Range string `json:"range" title:"Range" jsonschema:"which commits the notes are for"`
}

type reviewForm struct {
	Notes    string `json:"notes" title:"Release notes" jsonschema:"edit them as you like"`
	Feedback string `json:"feedback,omitempty" title:"Feedback" jsonschema:"what the model should change; leave empty to write the file"`
}

type writeForm struct {
	Notes string `json:"notes" title:"Release notes" jsonschema:"edit them as you like; they are written as they are here"`
}

type replaceForm struct {
	Replace bool `json:"replace" title:"Replace it"`
}

var (
	askRange   = &steps.Form[rangeForm]{ID: "range", Message: "Which commits are the release notes for?"}
	askModel   = &steps.Sample{ID: "draft", Request: steps.SampleRequest{SystemPrompt: system, MaxTokens: 2000}}
	askReview  = &steps.Form[reviewForm]{ID: "review", Message: "This is the draft. Accept it to write the file, edit it, or say what the model should change."}
	askByHand  = &steps.Form[writeForm]{ID: "write", Message: "Your client has no model that could draft the notes. Write them yourself, beginning with the commits."}
	askReplace = &steps.Form[replaceForm]{ID: "replace", Message: "The file exists already and says something else."}
)

const system = "You write release notes for people who use the software. Group changes under the headings Added, Changed and Fixed, " +
	"leave out what users do not notice, and name breaking changes first. Answer with the notes alone, in Markdown, beginning with a heading."

type turn = saga.Turn[args, state]

// New returns the tool release_notes for the repositories under root.
func New(root string) saga.Definition {
	n := notes{root}
	return saga.Machine[args, state]{
		Info: saga.Info{
			Name:        "release_notes",
			Title:       "Write release notes",
			Description: "Writes release notes for a range of a git repository's commits, drafted by the client's model, or by the user where there is no model, and approved by the user.",
			Asks:        []steps.Question{askRange, askModel, askReview, askByHand, askReplace},
		},
		Start: n.start,
		Steps: saga.Steps[args, state]{
			"ranged": n.ranged, "drafted": n.drafted, "reviewed": n.reviewed, "written": n.written, "replace": n.replace,
		},
	}
}

type notes struct{ root string }

func (n notes) start(t *turn) (saga.Next, error) {
	if _, err := cleanFile(t.Args.File); err != nil {
		return nil, err
	}
	r, err := gitrepo.Open(t, n.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	if t.State.Spans, err = spans(t, r); err != nil {
		return nil, err
	}
	var choices []steps.Choice
	for _, s := range t.State.Spans {
		choices = append(choices, steps.Choice{Value: s.Name, Title: fmt.Sprintf("%s (%s)", s.Title, s.words())})
	}
	return t.Ask("ranged", askRange.With(steps.Choices("range", choices...), steps.Default("range", choices[0].Value)))
}

func (n notes) ranged(t *turn) (saga.Next, error) {
	form, err := askRange.Answer(t)
	if err != nil {
		return nil, err
	}
	for _, s := range t.State.Spans {
		if s.Name == form.Range {
			t.State.Span = s
		}
	}
	t.State.Spans = nil
	return n.draft(t, "")
}

// draft has the model write the notes, or change its draft. With a client that has no model, the user
// writes them.
func (n notes) draft(t *turn, feedback string) (saga.Next, error) {
	commits, err := n.commits(t)
	if err != nil {
		return nil, err
	}
	return t.Ask("drafted", steps.Otherwise(
		askModel.With(steps.Promptf("%s", prompt(t.State.Span, commits, t.State.Notes, feedback))),
		askByHand.With(steps.Default("notes", outline(t.State.Span, commits))),
	))
}

func (n notes) drafted(t *turn) (saga.Next, error) {
	said, err := askModel.Answer(t)
	switch {
	case errors.Is(err, steps.ErrNotAsked):
		return n.written(t)
	case errors.As(err, new(*steps.ClientError)):
		return n.byHand(t)
	case err != nil:
		return nil, err
	}
	t.State.Notes = strings.TrimSpace(said.Text())
	if t.State.Notes == "" {
		return nil, saga.Failf("The model drafted nothing.")
	}
	return t.Ask("reviewed", askReview.With(steps.Default("notes", t.State.Notes)))
}

// byHand has the user write the notes when the model was refused or failed: beginning with its last
// draft, or else with the commits.
func (n notes) byHand(t *turn) (saga.Next, error) {
	begin, how := t.State.Notes, "Edit the draft yourself; accept to write the file."
	if begin == "" {
		commits, err := n.commits(t)
		if err != nil {
			return nil, err
		}
		begin, how = outline(t.State.Span, commits), "Write the notes yourself, beginning with the commits."
	}
	message := "The model has drafted nothing: it was refused, or it failed. " + how
	return t.Ask("written", askByHand.With(steps.Message(message), steps.Default("notes", begin)))
}

func (n notes) commits(t *turn) ([]*gitrepo.Commit, error) {
	r, err := gitrepo.Open(t, n.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	list, err := commits(t, r, t.State.Span.From, t.State.Span.To, maxCommits)
	if err == nil && len(list) == 0 {
		err = saga.Failf("There are no commits in %s.", t.State.Span.words())
	}
	return list, err
}

func (n notes) reviewed(t *turn) (saga.Next, error) {
	form, err := askReview.Answer(t)
	if err != nil {
		return nil, err
	}
	t.State.Notes = strings.TrimSpace(form.Notes)
	if feedback := strings.TrimSpace(form.Feedback); feedback != "" {
		return n.draft(t, feedback)
	}
	return n.write(t, "")
}

// written has the notes as the user wrote them.
func (n notes) written(t *turn) (saga.Next, error) {
	form, err := askByHand.Answer(t)
	if err != nil {
		return nil, err
	}
	t.State.Notes = strings.TrimSpace(form.Notes)
	return n.write(t, "")
}

func (n notes) replace(t *turn) (saga.Next, error) {
	form, err := askReplace.Answer(t)
	if err != nil {
		return nil, err
	}
	if !form.Replace {
		name, err := cleanFile(t.Args.File)
		if err != nil {
			return nil, err
		}
		return t.Textf("Nothing was written: %s stays as it is. The argument file names another one. These are the notes:\n\n%s", name, t.State.Notes)
	}
	return n.write(t, t.State.Old)
}

// write writes the file, or asks first if another text is there than the one that may be replaced. A turn
// that is repeated finds its own text.
func (n notes) write(t *turn, replaceable string) (saga.Next, error) {
	if t.State.Notes == "" {
		return nil, saga.Failf("The notes are empty; nothing was written.")
	}
	r, err := gitrepo.Open(t, n.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	name, err := cleanFile(t.Args.File)
	if err != nil {
		return nil, err
	}
	other, err := write(r.Dir, name, t.State.Notes+"\n", replaceable)
	if err != nil {
		return nil, err
	}
	if other == "" {
		return t.Textf("Wrote the release notes for %s to %s.", t.State.Span.words(), name)
	}
	t.State.Old = other
	return t.Ask("replace", askReplace.With(steps.Message(name+" exists already and says something else.")))
}
