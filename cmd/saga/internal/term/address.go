package term

import (
	"net"
	"net/url"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
)

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
