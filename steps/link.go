package steps

import (
	"encoding/json"
	"net"
	"net/url"

	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Link sends the user to a web page: URL mode elicitation (MCP page
// "client/elicitation"). It is the way to have the user give secrets, sign in or
// pay: what happens on the page stays between the user and the page.
//
// An answer means that the user agreed to open the page, not that they finished
// there. Make sure, when you see the user on the page, that it is the user who
// called the tool; and put nothing into the URL that lets its holder act as them.
//
// Do not change a Link after its first use.
type Link struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Message says to the user why to open the page. It is required.
	Message string
	// URL is the page: an absolute https URL, or http on this computer. It may be
	// empty if it is always given by With([URL]).
	URL string

	nth bool
}

// URL sets the page that a [Link] sends the user to.
func URL(u string) LinkOption { return urlOption(u) }

type urlOption string

func (u urlOption) applyLink(s *LinkSpec) error {
	s.URL = string(u)
	return nil
}

// StepID implements [Question].
func (l *Link) StepID() string { return l.ID }

// Verify implements [Verifier].
func (l *Link) Verify() error {
	check := checkDeclaredID
	if l.nth {
		check = checkID
	}
	reason := check(l.ID)
	if reason == "" && l.Message == "" {
		reason = "has no Message"
	}
	if reason == "" && l.URL != "" {
		reason = checkURL(l.URL)
	}
	if reason != "" {
		return &QuestionError{StepID: l.ID, Reason: reason}
	}
	return nil
}

// Step implements [Ask].
func (l *Link) Step() (Step, error) { return l.step(false, nil) }

// With returns the question asked with another URL or message.
func (l *Link) With(options ...LinkOption) Ask {
	return askFunc(func() (Step, error) { return l.step(true, options) })
}

// Nth returns the n-th instance of the link, with the id "ID#n".
func (l *Link) Nth(n int) *Link {
	return &Link{ID: nthID(l.ID, n), Message: l.Message, URL: l.URL, nth: true}
}

func (l *Link) step(varied bool, options []LinkOption) (Step, error) {
	if err := l.Verify(); err != nil {
		return Step{}, err
	}
	spec := LinkSpec{Message: l.Message, URL: l.URL}
	for _, o := range options {
		if o == nil {
			continue
		}
		if err := o.applyLink(&spec); err != nil {
			return Step{}, withID(l.ID, err)
		}
	}
	if err := spec.verify(); err != nil {
		return Step{}, withID(l.ID, err)
	}
	return Step{ID: l.ID, Kind: Elicitation, Params: spec.AppendParams(nil), Needs: URLElicitation, Varied: varied}, nil
}

// Check implements [Question]. Content is ignored: URL mode has none.
func (l *Link) Check(step Step, result json.RawMessage) error {
	if _, reason := parseElicited(result); reason != "" {
		return &MalformedError{StepID: step.ID, Reason: reason}
	}
	return nil
}

// Answer returns nil if the user agreed to open the page, or else a *[StepError].
func (l *Link) Answer(a Answers) error {
	_, err := acceptedBy(a, l.ID)
	return err
}

// askFunc is an Ask that is a function.
type askFunc func() (Step, error)

// Step implements [Ask].
func (f askFunc) Step() (Step, error) { return f() }

// LinkSpec is what a client is asked in URL mode.
type LinkSpec struct {
	// Message says to the user why to open the page.
	Message string
	// URL is the page.
	URL string
}

// ParseLink reads the parameters of elicitation/create in URL mode. The URL is
// checked as that of a [Link]. The error is a *[QuestionError].
func ParseLink(params json.RawMessage) (*LinkSpec, error) {
	if reason := checkObject(params); reason != "" {
		return nil, &QuestionError{Reason: reason}
	}
	if text(get(params, "mode")) != "url" {
		return nil, &QuestionError{Where: "mode", Reason: `is not "url"`}
	}
	message, ok := jsonview.String(get(params, "message"))
	if !ok {
		return nil, &QuestionError{Where: "message", Reason: "must be a string"}
	}
	page, ok := jsonview.String(get(params, "url"))
	if !ok {
		return nil, &QuestionError{Where: "url", Reason: "must be a string"}
	}
	if reason := checkURL(page); reason != "" {
		return nil, &QuestionError{Where: "url", Reason: reason}
	}
	return &LinkSpec{Message: message, URL: page}, nil
}

// linkParams are the parameters of elicitation/create in URL mode.
type linkParams struct {
	Mode    string `json:"mode"`
	Message string `json:"message"`
	URL     string `json:"url"`
}

// AppendParams appends the parameters of elicitation/create that ask to open the
// page to dst.
func (s *LinkSpec) AppendParams(dst []byte) []byte {
	return appendJSON(dst, &linkParams{"url", s.Message, s.URL})
}

func (s *LinkSpec) verify() error {
	reason := ""
	switch {
	case s.Message == "":
		reason = "has no Message"
	case s.URL == "":
		reason = "has no URL: declare one, or ask With(steps.URL(...))"
	default:
		reason = checkURL(s.URL)
	}
	if reason != "" {
		return &QuestionError{Reason: reason}
	}
	return nil
}

// checkURL says why a user must not be sent to u, or "". The reason does not
// repeat u: it may hold what should not be in a log.
func checkURL(u string) string {
	if !fieldtags.IsURI(u) {
		return "the URL is not a valid absolute URL"
	}
	parsed, err := url.Parse(u)
	switch {
	case err != nil || parsed.Hostname() == "":
		return "the URL names no host"
	case parsed.User != nil:
		return "the URL holds a user name or password"
	case parsed.Scheme == "https", parsed.Scheme == "http" && isLoopback(parsed.Hostname()):
		return ""
	}
	return "the URL must be https (http only on this computer)"
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
