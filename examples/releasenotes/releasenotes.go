// Package releasenotes is a tool that writes release notes: it reads a real git
// repository, asks which range of commits the notes are for, has the client's
// model draft them, shows the draft for approval, and writes the file. Nothing
// is changed before the user has approved.
package releasenotes

import (
	"context"
	"strings"

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
}

type rangeForm struct {
	Range string `json:"range" title:"Range" jsonschema:"which commits the notes are for"`
}

type reviewForm struct {
	Notes    string `json:"notes" title:"Release notes" jsonschema:"edit them as you like"`
	Feedback string `json:"feedback,omitempty" title:"Feedback" jsonschema:"what the model should change; leave empty to write the file"`
}

type replaceForm struct {
	Replace bool `json:"replace" title:"Replace it"`
}

var (
	askRange   = &steps.Form[rangeForm]{ID: "range", Message: "Which commits are the release notes for?"}
	askModel   = &steps.Sample{ID: "draft", Request: steps.SampleRequest{SystemPrompt: system, MaxTokens: 2000}}
	askReview  = &steps.Form[reviewForm]{ID: "review", Message: "This is the draft. Accept it to write the file, edit it, or say what the model should change."}
	askReplace = &steps.Form[replaceForm]{ID: "replace", Message: "The file exists already and says something else."}
)

const system = "You write release notes for people who use the software. Group changes under the headings Added, Changed and Fixed, " +
	"leave out what users do not notice, and name breaking changes first. Answer with the notes alone, in Markdown, beginning with a heading."

type turn = saga.Turn[args, state]

// New returns the tool release_notes for the repositories under root.
func New(root string) saga.Definition {
	n := notes{root}
	return saga.Machine[args, state]{
		Name:        "release_notes",
		Title:       "Write release notes",
		Description: "Writes release notes for a range of a git repository's commits, drafted by the client's model and approved by the user.",
		Asks:        []steps.Question{askRange, askModel, askReview, askReplace},
		Start:       n.start,
		Steps: saga.Steps[args, state]{
			"ranged": n.ranged, "drafted": n.drafted, "reviewed": n.reviewed, "replace": n.replace,
		},
	}
}

type notes struct{ root string }

func (n notes) start(_ context.Context, t *turn) (saga.Next, error) {
	if _, err := file(t); err != nil {
		return nil, err
	}
	r, err := open(n.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	if t.State.Spans, err = r.spans(); err != nil {
		return nil, err
	}
	options := choices(t.State.Spans)
	return t.Ask("ranged", askRange.With(steps.Choices("range", options...), steps.Default("range", options[0].Value)))
}

func (n notes) ranged(ctx context.Context, t *turn) (saga.Next, error) {
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
	return n.draft(ctx, t, "")
}

// draft has the model write the notes, or change the ones there are.
func (n notes) draft(ctx context.Context, t *turn, feedback string) (saga.Next, error) {
	r, err := open(n.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	prompt, err := r.prompt(ctx, t.State.Span, t.State.Notes, feedback)
	if err != nil {
		return nil, err
	}
	return t.Ask("drafted", askModel.With(steps.Prompt("%s", prompt)))
}

func (n notes) drafted(_ context.Context, t *turn) (saga.Next, error) {
	said, err := askModel.Answer(t)
	if err != nil {
		return nil, err
	}
	t.State.Notes = strings.TrimSpace(said.Text())
	if t.State.Notes == "" {
		return nil, saga.Failf("The model drafted nothing.")
	}
	return t.Ask("reviewed", askReview.With(steps.Default("notes", t.State.Notes)))
}

func (n notes) reviewed(ctx context.Context, t *turn) (saga.Next, error) {
	form, err := askReview.Answer(t)
	if err != nil {
		return nil, err
	}
	t.State.Notes = strings.TrimSpace(form.Notes)
	if feedback := strings.TrimSpace(form.Feedback); feedback != "" {
		return n.draft(ctx, t, feedback)
	}
	if t.State.Notes == "" {
		return nil, saga.Failf("The notes are empty; nothing was written.")
	}
	return n.write(t, false)
}

func (n notes) replace(_ context.Context, t *turn) (saga.Next, error) {
	form, err := askReplace.Answer(t)
	if err != nil {
		return nil, err
	}
	if !form.Replace {
		name, err := file(t)
		if err != nil {
			return nil, err
		}
		return t.Text("Nothing was written: %s stays as it is.", name)
	}
	return n.write(t, true)
}

// write writes the file, or asks first if another text is there. A turn that is
// repeated finds its own text and is done.
func (n notes) write(t *turn, replace bool) (saga.Next, error) {
	r, err := open(n.root, t.Args.Repo)
	if err != nil {
		return nil, err
	}
	name, err := file(t)
	if err != nil {
		return nil, err
	}
	found, err := r.write(name, t.State.Notes+"\n", t.ID().String(), replace)
	if err != nil {
		return nil, err
	}
	if found == otherText && !replace {
		return t.Ask("replace", askReplace.With(steps.Message(name+" exists already and says something else.")))
	}
	return t.Text("Wrote the release notes for %s to %s.", t.State.Span.Name, name)
}

// file is the name of the file to write.
func file(t *turn) (string, error) {
	if t.Args.File == "" {
		return "RELEASE_NOTES.md", nil
	}
	return cleanFile(t.Args.File)
}
