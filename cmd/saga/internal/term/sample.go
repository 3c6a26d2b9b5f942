package term

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"charm.land/huh/v2"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/answers"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a person decides about a request to their model, unless they refuse it.
const (
	// Send passes it on.
	Send = "send"
	// Myself has the person answer, or correct the answer.
	Myself = "myself"
)

// AskConsent shows what would be sent to a model and asks whether it may be.
func (t *Terminal) AskConsent(ctx context.Context, r *client.Request, model, host string) (string, error) {
	t.toBeSent(r.Tool+" asks your model", Describe(r.Sample))
	return t.decide(ctx, "Send this to your model?",
		huh.NewOption(fmt.Sprintf("Send it to %s at %s", plain.Line(model), plain.Line(host)), Send),
		huh.NewOption("Answer it myself", Myself))
}

// Review shows what a model answered and asks whether the tool may have it.
func (t *Terminal) Review(ctx context.Context, r *client.Request, result *steps.SampleResult) (string, error) {
	t.toBeSent(result.Model+" answers", Blocks(result.Content))
	return t.decide(ctx, "Send this answer to "+plain.Line(r.Tool)+"?",
		huh.NewOption("Send it", Send),
		huh.NewOption("Edit it first", Myself))
}

// toBeSent shows what is sent if the person agrees, and warns of invisible characters in it.
func (t *Terminal) toBeSent(who, text string) {
	t.heading(who, text)
	if n := plain.Hidden(text); n > 0 {
		t.say(fmt.Sprintf("Careful: %d more characters would be sent that a terminal does not show.", n))
	}
}

// decide is choose with a refusal behind the options, which is a [*client.Error].
func (t *Terminal) decide(ctx context.Context, title string, options ...huh.Option[string]) (string, error) {
	choice, err := t.choose(ctx, title, append(options, huh.NewOption("Refuse: tell the tool no", optionDecline))...)
	switch {
	case errors.Is(err, errLeft):
		err = client.ErrPause
	case err == nil && choice == optionDecline:
		err = answers.Refused()
	}
	return choice, err
}

// AnswerSample has the person answer in the model's place, starting from draft.
func (t *Terminal) AnswerSample(ctx context.Context, r *client.Request, draft string) (string, error) {
	// The request may be longer than the screen, so the field says what it is for.
	title := "Your answer, in place of a model's"
	if draft == "" {
		t.heading(r.Tool+" asks a model, and you are to answer for it", Describe(r.Sample))
	} else {
		title = "The answer, for you to correct"
	}
	if t.accessible {
		title = "Answer in one line (empty to leave):"
	}
	text := plain.Text(draft)
	for {
		area := huh.NewText().Title(title).Description("What is asked stands above. Esc: refuse, or stop here.").Lines(areaLines).Value(&text).
			Validate(func(s string) error {
				if strings.TrimSpace(s) == "" && !t.accessible {
					return errors.New("write something, or press Esc to leave")
				}
				return nil // an empty line is the way to leave a form of lines
			})
		err := t.run(ctx, huh.NewGroup(area))
		if err == nil && strings.TrimSpace(text) != "" {
			return text, nil
		}
		if err == nil || errors.Is(err, errLeft) {
			_, err = t.decide(ctx, "What now?", huh.NewOption("Answer", Myself))
		}
		if err != nil {
			return "", err
		}
	}
}

// Describe returns everything that a request would send to a model, as text.
func Describe(r *steps.SampleRequest) string {
	var b strings.Builder
	if r.SystemPrompt != "" {
		fmt.Fprintf(&b, "system: %s\n", r.SystemPrompt)
	}
	for _, message := range r.Messages {
		fmt.Fprintf(&b, "%s: %s\n", message.Role, Blocks(message.Content))
	}
	for _, tool := range r.Tools {
		fmt.Fprintf(&b, "tool %s: %s %s\n", tool.Name, tool.Description, tool.InputSchema)
	}
	for _, stop := range r.StopSequences {
		fmt.Fprintf(&b, "stops at: %q\n", stop)
	}
	fmt.Fprintf(&b, "(at most %d tokens)", r.MaxTokens)
	return b.String()
}

// Blocks returns content as text. It names blocks that are none.
func Blocks(blocks content.Blocks) string {
	var parts []string
	for _, block := range blocks {
		switch b := block.(type) {
		case content.Text:
			parts = append(parts, b.Text)
		case content.Image:
			parts = append(parts, fmt.Sprintf("[image, %s, %d bytes]", b.MIMEType, len(b.Data)))
		case content.Audio:
			parts = append(parts, fmt.Sprintf("[audio, %s, %d bytes]", b.MIMEType, len(b.Data)))
		case content.ResourceLink:
			parts = append(parts, fmt.Sprintf("[%s: %s]", b.Name, b.URI))
		case content.EmbeddedResource:
			parts = append(parts, fmt.Sprintf("[%s]\n%s", b.URI, b.Text))
		case content.ToolUse:
			parts = append(parts, fmt.Sprintf("[uses the tool %s with %s]", b.Name, b.Input))
		case content.ToolResult:
			text := Blocks(b.Content)
			if text == "" {
				text = string(b.StructuredContent)
			}
			parts = append(parts, "[the tool returned] "+text)
		default:
			parts = append(parts, "["+block.BlockType()+"]")
		}
	}
	return strings.Join(parts, "\n")
}
