package term

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Elicit asks the person to fill in a form or to visit an address. Its errors
// stop the call, except a [*client.Error], which answers the step.
func (t *Terminal) Elicit(ctx context.Context, r *client.Request) (*client.ElicitResult, error) {
	if r.Mode == "url" {
		return t.link(ctx, r)
	}
	form, err := r.Form()
	if err != nil {
		return nil, &client.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
	}
	t.heading(r.Tool+" asks", form.Message)
	base, _, _ := strings.Cut(r.StepID, "~")
	inputs := t.inputs[base]
	// A form that offers or suggests something else starts anew, though it has the same id.
	if !slices.EqualFunc(inputs, form.Fields, func(in *input, f steps.Field) bool { return reflect.DeepEqual(in.field, f) }) {
		inputs = nil
		for _, field := range form.Fields {
			inputs = append(inputs, newInput(t, field))
		}
		t.inputs[base] = inputs
	}
	if t.accessible { // no key leaves a form of lines, so it begins with the ways to leave it
		if result, err := t.left(ctx); result != nil || err != nil {
			return result, err
		}
	}
	for {
		if result, err := t.fill(ctx, form, inputs); result != nil || err != nil {
			return result, err
		}
	}
}

// fill shows the form once. It returns nil and no error if it is to be shown again.
func (t *Terminal) fill(ctx context.Context, form *steps.FormSpec, inputs []*input) (*client.ElicitResult, error) {
	send := true
	err := t.run(ctx, t.pages(inputs, &send)...)
	if errors.Is(err, errLeft) || err == nil && !send {
		return t.left(ctx)
	}
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	for _, in := range inputs {
		value, err := in.value()
		if err == nil && value != nil {
			content[in.field.Name] = value
		}
	}
	if err := form.Validate(content); err != nil {
		t.say(plain.Text(err.Error()))
		return nil, nil
	}
	for _, in := range inputs {
		value, sent := content[in.field.Name]
		if !sent {
			value = "(left out)"
		}
		t.note("  %s: %s", plain.Short(in.field.Label(), maxLabel), plain.Short(fmt.Sprint(value), 60))
	}
	return client.Accept(content), nil
}

// pages lays out the form: areas of text stand on a page of their own, the other
// fields together.
func (t *Terminal) pages(inputs []*input, send *bool) []*huh.Group {
	var pages []*huh.Group
	var page []huh.Field
	turn := func() {
		if len(page) > 0 {
			pages = append(pages, huh.NewGroup(page...))
			page = nil
		}
	}
	for _, in := range inputs {
		if in.isArea() {
			turn()
			pages = append(pages, huh.NewGroup(in.widget()))
		} else {
			page = append(page, in.widget())
		}
	}
	title := "Send this answer?"
	if len(inputs) == 0 {
		title = "Do you agree?"
	}
	page = append(page, huh.NewConfirm().Title(title).Affirmative("Send").Negative("Do not send").Value(send))
	turn()
	return pages
}

// left asks what to do instead of answering. It returns nil and no error to show the form again.
func (t *Terminal) left(ctx context.Context) (*client.ElicitResult, error) {
	choice, err := t.choose(ctx, "What now?", append([]huh.Option[string]{huh.NewOption("Answer", optionBack)}, refusals...)...)
	if errors.Is(err, errLeft) {
		return nil, nil
	}
	return t.refused(choice), err
}

// refusals are the options that give no answer.
var refusals = []huh.Option[string]{
	huh.NewOption("Decline: tell the tool no", optionDecline), huh.NewOption("Dismiss: give the tool no answer", optionCancel),
}

// refused returns what the tool gets for a choice of refusals, nil for any other.
func (t *Terminal) refused(choice string) *client.ElicitResult {
	switch choice {
	case optionDecline:
		t.note("  declined")
		return client.Decline()
	case optionCancel:
		t.note("  dismissed")
		return client.Cancel()
	}
	return nil
}

// link asks whether the person visits an address. No program is started with one that a server
// has chosen.
func (t *Terminal) link(ctx context.Context, r *client.Request) (*client.ElicitResult, error) {
	link, err := steps.Step{Params: r.Params}.Link()
	if err != nil {
		return nil, &client.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
	}
	t.heading(r.Tool+" asks you to visit a web page", link.Message)
	address, err := url.Parse(link.URL)
	if err != nil { // Link has parsed it
		return nil, err
	}
	host := t.showAddress(address)
	for _, remark := range oddities(address) {
		t.say("Careful: " + remark)
	}
	choice, err := t.choose(ctx, "Visit "+host+"?", append([]huh.Option[string]{huh.NewOption("Agree, and open it in a browser", optionAgree)}, refusals...)...)
	switch {
	case errors.Is(err, errLeft):
		return nil, client.ErrPause
	case err != nil:
		return nil, err
	case choice == optionAgree:
		return client.Accept(nil), nil
	}
	return t.refused(choice), nil
}

// showAddress prints an address with its host emphasized, and returns the host.
func (t *Terminal) showAddress(address *url.URL) string {
	host := plain.Line(address.Host)
	shown := plain.Line(address.String())
	if before, after, found := strings.Cut(shown, host); found {
		shown = before + t.styled(lipgloss.NewStyle().Bold(true).Underline(true), host) + after
	}
	lipgloss.Fprintln(t.out, "  "+shown) // not wrapped, so that it can be copied
	lipgloss.Fprintln(t.out, "  Host: "+host)
	return host
}

// oddities are what is suspicious about an address that [steps.Step.Link] lets pass.
func oddities(address *url.URL) (remarks []string) {
	if ip := net.ParseIP(address.Hostname()); ip != nil && !ip.IsLoopback() {
		remarks = append(remarks, "the host is a bare number.")
	}
	for label := range strings.SplitSeq(address.Hostname(), ".") {
		if strings.HasPrefix(strings.ToLower(label), "xn--") || strings.ContainsFunc(label, func(r rune) bool { return r > 0x7f }) {
			remarks = append(remarks, "the host's name uses letters that can look like others.")
			break
		}
	}
	return remarks
}

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
		err = Refused()
	}
	return choice, err
}

// Refused is the answer to a sampling step that the user does not allow.
func Refused() *client.Error {
	return &client.Error{Code: -1, Message: "User rejected sampling request"}
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
