package steps

import (
	"encoding/json"
	"net"
	"net/url"

	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Link sends the user to a web page to give secrets, sign in or pay: URL mode elicitation
// (MCP page "client/elicitation"). What the user enters there does not pass through the
// client.
//
// An answer means that the user agreed to open the page, not that they finished there.
// The page must make sure that its visitor is the user who called the tool, and the URL
// must hold nothing that lets its holder act as that user.
//
// Do not change a Link after its first use.
type Link struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Message says to the user why to open the page. It is required.
	Message string
	// URL is the page: an absolute https URL, or http on this computer. It may be empty
	// if With always gives one.
	URL string
	// Routes are the ways by which the user may be sent there; zero is any.
	Routes Routes
	// Done may be the *[Event] that says that the user has finished on the page, which the tool asks as well. Then the
	// client learns of that when the event has come, and not only by the end of the call. The n-th instance of the
	// link has that of the event.
	Done Question

	nth, varied bool
}

// LinkOption changes how a [Link] is asked. See [Message] and [URL].
type LinkOption interface{ applyLink(*Link) }

// URL sets the page that a [Link] sends the user to: a [LinkOption].
type URL string

func (u URL) applyLink(l *Link) { l.URL = string(u) }

// StepID implements [Question].
func (l *Link) StepID() string { return l.ID }

// Verify implements [Question].
func (l *Link) Verify() error {
	if err := checkID(l.ID, l.nth); err != nil {
		return err
	}
	if l.Message == "" {
		return &QuestionError{StepID: l.ID, Reason: "has no Message"}
	}
	if reason := checkURL(l.URL); l.URL != "" && reason != "" {
		return &QuestionError{StepID: l.ID, Reason: reason}
	}
	if e, ok := l.Done.(interface{ happens() bool }); l.Done != nil && (!ok || !e.happens()) {
		return &QuestionError{StepID: l.ID, Reason: "its Done is no Event"}
	}
	return checkRoutes(l.ID, l.Routes, false)
}

// Step implements [Request].
func (l *Link) Step() (Step, error) {
	if err := l.Verify(); err != nil {
		return Step{}, err
	}
	s := Step{Kind: Elicitation, Needs: Features{Links: true}, Routes: l.Routes}
	if l.Done != nil {
		s.Done = l.Done.StepID()
	}
	if l.URL == "" {
		return s, &QuestionError{StepID: l.ID, Reason: "has no URL: declare one, or ask With(steps.URL(...))"}
	}
	s.ID, s.Varied, s.Params = l.ID, l.varied, appendJSON(nil, &linkParams{"url", &l.Message, l.URL})
	return s, nil
}

// With returns the question asked with another URL or message.
func (l *Link) With(options ...LinkOption) *Link {
	varied := *l
	varied.varied = true
	for _, o := range options {
		if o != nil {
			o.applyLink(&varied)
		}
	}
	return &varied
}

// Nth returns the n-th instance of the link, with the id "ID#n".
func (l *Link) Nth(n int) *Link {
	nth := *l
	nth.ID, nth.nth = nthID(l.ID, n), true
	return &nth
}

// Check implements [Question]. Content is ignored: URL mode has none.
func (l *Link) Check(step Step, result json.RawMessage) error {
	_, err := parsed(step.ID, result, parseElicited)
	return err
}

// Answer returns nil if the user agreed to open the page, or else a *[StepError].
func (l *Link) Answer(a Answers) error {
	_, err := acceptedBy(a, l.ID, parseElicited)
	return err
}

// Link reads the link that the step asks for from its ID and Params: those of
// elicitation/create in URL mode. The error is a *[QuestionError].
func (s Step) Link() (*Link, error) {
	var p linkParams
	if err := readParams(s.Params, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Mode != "url":
		return nil, &QuestionError{Where: "mode", Reason: `is not "url"`}
	case p.Message == nil:
		return nil, &QuestionError{Where: "message", Reason: "must be a string"}
	}
	if reason := checkURL(p.URL); reason != "" {
		return nil, &QuestionError{Where: "url", Reason: reason}
	}
	return &Link{ID: s.ID, Message: *p.Message, URL: p.URL}, nil
}

// linkParams are the parameters of elicitation/create in URL mode.
type linkParams struct {
	Mode    string  `json:"mode"`
	Message *string `json:"message"`
	URL     string  `json:"url"`
}

// checkURL says why a user must not be sent to u, or "". It does not repeat u, which may
// hold what should not be in a log.
func checkURL(u string) string {
	if !schema.IsURI(u) {
		return "the URL is not a valid absolute URL"
	}
	parsed, err := url.Parse(u)
	switch {
	case err != nil || parsed.Hostname() == "":
		return "the URL names no host"
	case parsed.User != nil:
		return "the URL holds a user name or password"
	case parsed.Scheme == "https", parsed.Scheme == "http" && (parsed.Hostname() == "localhost" || net.ParseIP(parsed.Hostname()).IsLoopback()):
		return ""
	}
	return "the URL must be https (http only on this computer)"
}
