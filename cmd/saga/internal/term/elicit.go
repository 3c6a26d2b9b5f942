package term

import (
	"context"
	"errors"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
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
		t.note("  %s: %s", plain.Short(in.field.Label(), maxLabel), in.summary(60))
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
	host, remarks := t.showAddress(link.URL)
	for _, remark := range remarks {
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

// showAddress prints an address with its host emphasized, and returns the host and what is
// suspicious about it.
func (t *Terminal) showAddress(address string) (host string, remarks []string) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		return plain.Line(address), []string{"this is not an ordinary web address."}
	}
	host = plain.Line(parsed.Host)
	shown := plain.Line(address)
	if before, after, found := strings.Cut(shown, host); found {
		shown = before + t.styled(lipgloss.NewStyle().Bold(true).Underline(true), host) + after
	}
	lipgloss.Fprintln(t.out, "  "+shown) // not wrapped, so that it can be copied
	lipgloss.Fprintln(t.out, "  Host: "+host)
	return host, oddities(parsed)
}

func oddities(address *url.URL) []string {
	var remarks []string
	name := address.Hostname()
	ip := net.ParseIP(name)
	local := name == "localhost" || ip != nil && ip.IsLoopback()
	if address.Scheme != "https" && !local {
		remarks = append(remarks, "what you send to this page can be read on the way (it is not https).")
	}
	if address.User != nil {
		remarks = append(remarks, "the address contains a user name, often used to disguise where it leads.")
	}
	if ip != nil && !local {
		remarks = append(remarks, "the host is a bare number.")
	}
	for label := range strings.SplitSeq(name, ".") {
		if strings.HasPrefix(strings.ToLower(label), "xn--") || strings.ContainsFunc(label, func(r rune) bool { return r > 0x7f }) {
			remarks = append(remarks, "the host's name uses letters that can look like others.")
			break
		}
	}
	return remarks
}
