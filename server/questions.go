package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/pages"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Questions says how a [Server] asks users whose clients cannot ask them. The zero value is for use: the model of such a
// client relays what the tool asks, but for consents.
type Questions struct {
	// Force are the only routes of questions, for tests, and for clients that declare what they do not do. Zero is
	// what the client declares.
	Force steps.Routes
	// NoRelay has no model relay anything.
	NoRelay bool
	// PageURL is where users reach [Server.Pages], such as "https://tools.example.com/ask": then they are sent links to
	// pages on which they answer. It must be https, or on the loopback interface, and needs a Ledger. Empty means that
	// there are no pages.
	PageURL string
	// TrustedApps names the clients whose windows may give consents by the server's form (MCP Apps), as they call
	// themselves. Others are sent to the page: a host does not say whether it was a person who has answered the form.
	TrustedApps []string
	// Roles returns the names by which a caller may answer what others have asked for ([steps.Form].By), such as the
	// groups it is in. Nil has it answer what names its Subject. It is called with each request for such a page, for
	// callers that Options.Authenticate has recognised; if it fails, the page says to try again.
	Roles func(ctx context.Context, who saga.Caller) ([]string, error)
}

// pageURL checks PageURL, and returns it without a slash at the end.
func (q *Questions) pageURL(ledger bool) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(q.PageURL, "/"))
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !plainPath(u.Path):
		return nil, errors.New("Options.Questions.PageURL must be an absolute URL with nothing but a scheme, a host and a plain path")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, errors.New("Options.Questions.PageURL must be https, as what users answer on a page is theirs alone; http is for the loopback interface")
	case !ledger:
		return nil, errors.New("Options.Questions.PageURL needs Options.Ledger: pages are of calls that any process can go on with. ledger.NewMemory does for a single process")
	}
	return u, nil
}

// checkEventPath checks Options.EventPath.
func (s *Server) checkEventPath() error {
	taken := []string{Endpoint, "/healthz", "/readyz"}
	if s.pagesAt != nil && s.pagesAt.Path != "" {
		taken = append(taken, s.pagesAt.Path)
	}
	at := s.opts.EventPath
	within := func(other string) bool {
		return at == other || strings.HasPrefix(at, other+"/") || strings.HasPrefix(other, at+"/")
	}
	switch {
	case at == "":
		return nil
	case at[0] != '/' || at == "/" || !plainPath(at) || slices.ContainsFunc(taken, within):
		return fmt.Errorf("server: Options.EventPath must be a plain path of its own, such as /events, and not %q", at)
	case s.keeper == nil:
		return errNoLedger
	}
	return nil
}

// plainPath reports whether a path means the same wherever it is written, also in patterns of [http.ServeMux].
func plainPath(p string) bool {
	return (p == "" || p == path.Clean(p)) && !strings.ContainsFunc(p, func(c rune) bool {
		return !strings.ContainsRune("/-._~", c) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// who finds out who opens a page for others than callers; nil if the server knows no one.
func (s *Server) who() pages.Who {
	if s.opts.Authenticate == nil {
		return nil
	}
	return func(r *http.Request) (who pages.Person, err error) {
		c, rerr := s.callerOf(r)
		if rerr != nil {
			return who, rerr
		}
		p := saga.CallerOf(engine.WithCaller(r.Context(), c))
		who = pages.Person{Subject: p.Subject, Names: []string{p.Subject}, Principal: c.Binding()}
		key := s.opts.CallerKey(r)
		if from, err := netip.ParseAddr(key); err == nil {
			who.From = from.String() // behind a proxy
		} else if network, err := netip.ParsePrefix(key); err == nil {
			who.From = network.String() // all that ForwardedKey says of an address of IPv6
		} else {
			who.From, _, _ = net.SplitHostPort(r.RemoteAddr)
		}
		if s.opts.Questions.Roles != nil && p.Subject != "" {
			who.Names, err = s.opts.Questions.Roles(r.Context(), p)
		}
		return who, err
	}
}

// askOthers fails if tools ask others than their callers, and these have nowhere to answer.
func (s *Server) askOthers() error {
	if s.pages != nil && s.opts.Authenticate != nil {
		return nil
	}
	var missing []error
	for _, kind := range []engine.Kind{engine.KindTool, engine.KindPrompt, engine.KindResource} {
		for _, newest := range s.host.Tools.Of(kind) {
			if slices.ContainsFunc(s.host.Tools.Revisions(kind, newest.Name), (*engine.Program).AsksOthers) {
				missing = append(missing, &engine.DefinitionError{Tool: newest.Name, Problem: "it asks others than its caller, for which the server needs Options.Questions.PageURL, where they answer, and Options.Authenticate, which knows them"})
			}
		}
	}
	return errors.Join(missing...)
}

// addPages makes the pages of a server, if it is to have any.
func (s *Server) addPages() error {
	if s.opts.Questions.PageURL == "" {
		return nil
	}
	u, err := s.opts.Questions.pageURL(s.host.Core != nil)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	p, err := pages.New(s.host, u.String(), func(binding string) string { return engine.CallerOfBinding(binding).Subject }, s.who(), s.account)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.host.Questions.Pages, s.pagesAt = p, u
	s.pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ours := s.guard.hostAllowed(r.Host)
		if !ours && name != strings.ToLower(u.Hostname()) {
			http.Error(w, "this host is no name of the server's pages", http.StatusForbidden)
			return
		}
		p.ServeHTTP(w, r)
	})
	return nil
}

// Pages returns the pages of Questions.PageURL as an HTTP handler: users answer there what tools ask. [Server.Handler] has it
// at the path of that URL. To have it elsewhere, mount it with [http.StripPrefix]: it is given the rest of the path. Who
// opens the page of a call is not asked who they are; the link is what opens it. Without a PageURL there is nothing at any path.
//
// What tools ask others than their callers is on pages below /waiting, which lists what waits for who opens it, as
// Options.Authenticate and Questions.Roles know them: a browser must bring what Authenticate looks at, such as a cookie, or
// a header that a proxy adds.
func (s *Server) Pages() http.Handler {
	s.keeper.begin()
	if s.pages == nil {
		return http.NotFoundHandler()
	}
	return s.pages
}
