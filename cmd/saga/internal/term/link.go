package term

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/steps"
)

const (
	optionOpen  = "open"
	optionAgree = "agree"
)

// link asks whether to visit an address. It is opened only if the person says so.
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
	var options []huh.Option[string]
	if t.open != nil {
		options = append(options, huh.NewOption("Open "+host+" in the browser", optionOpen))
	}
	options = append(options, huh.NewOption("Agree, and open it myself", optionAgree))
	choice, err := t.choose(ctx, "Visit "+host+"?", append(options, refusals...)...)
	if errors.Is(err, errLeft) {
		err = client.ErrPause
	}
	if err != nil {
		return nil, err
	}
	if result := t.refused(choice); result != nil {
		return result, nil
	}
	if choice == optionOpen {
		if err := t.open(ctx, link.URL); err != nil {
			t.say(fmt.Sprintf("The browser could not be started (%v). Please open the address yourself.", err))
		}
	}
	return client.Accept(nil), nil
}

// showAddress prints an address with its host standing out, and returns the host
// and what is odd about it.
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
	lipgloss.Fprintln(t.out, "  "+shown) // not wrapped: an address must stay whole to be copied
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
