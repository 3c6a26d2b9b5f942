package program

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/login"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
	"github.com/mcpsaga/mcpsaga/server"
)

// shownURL is what may be shown of a text that is no URL: before an @ there may be a password.
func shownURL(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// endpoint returns the URL of a server's endpoint: without a path, it has the usual one.
func (p *program) endpoint(c *cli.Command, given string) (string, error) {
	parsed, err := url.Parse(given)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return "", p.usage(c, "%q is not a URL such as %s", shownURL(given), defaultServer)
	}
	if parsed.User != nil {
		return "", p.usage(c, "the URL of a server is saved and shown, so it must have no password: give that by --header 'Authorization: Basic ...'")
	}
	if strings.Trim(parsed.Path, "/") == "" {
		return parsed.JoinPath(server.Endpoint).String(), nil
	}
	return given, nil
}

// loginFor returns what sends the requests for a server with the access token of the user's login; nil if the user can have
// none.
func (p *program) loginFor(ctx context.Context, c *cli.Command, address string) (*login.Login, error) {
	path, err := keyfile.Default(p.name)
	switch {
	case err != nil && c.Bool("login"):
		return nil, failed(fmt.Errorf("there is no place to keep a login: %w", errors.Unwrap(err)))
	case err != nil:
		return nil, nil
	}
	inner := http.DefaultTransport.(*http.Transport).Clone()
	inner.MaxResponseHeaderBytes = 256 << 10
	o := login.Options{
		Server: address, Dir: filepath.Join(filepath.Dir(path), "logins"), Client: p.name, ClientID: c.String("client-id"),
		Wait: c.Duration("timeout") * 9 / 10, Inner: inner, // a request waits for it
	}
	if c.Bool("login") {
		o.Show = func(issuer, at string, scopes []string) {
			p.bar.Clear()
			p.remark("%s wants you to sign in at %s (scopes: %s), in a browser:\n  %s", plain.Line(address),
				plain.Line(issuer), plain.Short(strings.Join(scopes, " "), 300), plain.Line(at))
			if term.Is(p.stderr) {
				openBrowser(at)
			}
		}
	}
	l, err := login.New(ctx, o)
	if err != nil {
		return nil, failed(err)
	}
	return l, nil
}

// openBrowser opens an address of http or https in the user's browser, if there is one: the user has the address, too.
func openBrowser(at string) {
	open := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		open = []string{"open"}
	case "windows":
		open = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	browser := exec.Command(open[0], append(open[1:], at)...)
	if browser.Start() == nil {
		go func() { _ = browser.Wait() }() // a browser may stay as long as its window
	}
}

// withLogin adds what a login has to do with an error: why there is none, or how to get one.
func (p *program) withLogin(err error) error {
	var why error
	if p.login != nil {
		why = p.login.Err()
	}
	lost, ok := errors.AsType[*client.TransportError](err)
	switch {
	case exitCode(err) == exitInterrupted: // it may be by the user, who does not want to sign in
	case errors.Is(why, login.ErrMore):
		return &exitError{exitServer, fmt.Errorf("%w\nMore than your login allows: sign in for it with --login", err)}
	case errors.Is(why, login.ErrNone), why == nil && ok && lost.Status == http.StatusUnauthorized:
		if p.notSent != "" {
			return &exitError{exitServer, fmt.Errorf("%w\nThe tokens and headers of the environment or of --config are for %s, and were not sent: give --bearer or --header, name this server with --server, or sign in with --login", err, p.notSent)}
		}
		return &exitError{exitServer, fmt.Errorf("%w\nSign in with --login, or give an access token in %s_BEARER or with --bearer", err, p.environment())}
	case why != nil:
		return &exitError{exitServer, fmt.Errorf("%w\n%w", err, why)}
	}
	return err
}

func (p *program) logoutCommand() *cli.Command {
	return &cli.Command{
		Name: "logout", Usage: "forget a login of --login", ArgsUsage: "URL",
		Description: `Removes the login for a server, and has its authorization server revoke the tokens, if it can.`,
		Action: func(ctx context.Context, c *cli.Command) error {
			given, err := p.oneArgument(c, "URL of the server")
			if err != nil {
				return err
			}
			address, err := p.endpoint(c, given)
			if err != nil {
				return err
			}
			l, err := p.loginFor(ctx, c, address)
			was := false
			if l != nil && err == nil {
				was, err = l.Forget()
			}
			if err == nil && !was {
				err = fmt.Errorf("there is no login for %s", address)
			}
			if err == nil {
				p.remark("the login for %s is gone", address)
			}
			return failed(err)
		},
	}
}
