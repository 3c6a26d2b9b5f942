package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/login"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
	"github.com/mcpsaga/mcpsaga/server"
)

const defaultServer = "http://" + defaultAddr + server.Endpoint

func (p *program) serverChoice() []cli.Flag {
	return []cli.Flag{
		p.boolFlag("login", "sign in for the server in a browser, if it wants that; it holds for later commands, until {program} logout"),
		p.stringFlag("client-id", "the `ID` of the client to sign in with, one without a secret (default: one is registered)", ""),
		p.stringFlag("server", "the `URL` of the server's MCP endpoint (default: "+defaultServer+")", ""),
		p.stringFlag("stdio", "run this `COMMAND` as the server, instead of using one that runs", ""),
		p.stringFlag("protocol", "speak `PROTOCOL`: saga, 2026-07-28, or an older revision of MCP such as 2025-11-25 (default: what the server speaks)", ""),
		p.stringFlag("bearer", "an access `TOKEN` for the server; better given as {PROGRAM}_BEARER", ""),
		p.listFlag("header", "a `HEADER` for the server, as Name: value"),
		p.durationFlag("timeout", "how long the server may take for one turn", 5*time.Minute),
		p.durationFlag("retry-for", "how long to try again when the server is lost", time.Minute),
	}
}

// withClient has do use the server of connect, until the terminal is closed.
func (p *program) withClient(ctx context.Context, c *cli.Command, target *state.Call, do func(context.Context, *client.Client) error) error {
	ctx, stop := untilClosed(ctx)
	defer stop()
	connection, err := p.connect(ctx, c, target)
	if err != nil {
		return err
	}
	defer connection.Close()
	return do(ctx, connection)
}

// connect returns a client for the server of the flags, or else of a saved call, and notes in target which server that is.
// What the environment or a file says of a server is for calls that begin.
func (p *program) connect(ctx context.Context, c *cli.Command, target *state.Call) (*client.Client, error) {
	saved := target.URL != "" || target.Stdio != ""
	given := func(name string) string {
		if saved && !onCommandLine(c, name) {
			return ""
		}
		return c.String(name)
	}
	address, command := given("server"), given("stdio")
	if address != "" && command != "" {
		return nil, p.usage(c, "use either --server (or %[1]s_SERVER) or --stdio (or %[1]s_STDIO)", p.environment())
	}
	if address != "" || command != "" {
		target.URL, target.Stdio, target.Dir = address, command, ""
		if target.Stdio != "" {
			target.Dir, _ = os.Getwd() // of which the command may name files, wherever the call is resumed
		}
	}
	if target.URL == "" && target.Stdio == "" {
		target.URL = defaultServer
	}
	protocol, as := c.String("protocol"), c.String("as")
	switch {
	case protocol != "" || as == "":
	case as == "apps" && target.Stdio != "":
		protocol = "2026-07-28" // in which one process serves the model and the app
	default:
		protocol = "2025-11-25" // as such hosts do
	}
	switch {
	case as != "" && as != "no-elicitation" && as != "apps":
		return nil, p.usage(c, "--as is no-elicitation or apps, not %q", as)
	case as != "" && protocol == "saga":
		return nil, p.usage(c, "--as is for protocols in which clients declare what they can do")
	case c.Int("max-rounds") < 0:
		return nil, p.usage(c, "--max-rounds %d: the server has to be allowed some rounds", c.Int("max-rounds"))
	case c.Duration("timeout") <= 0:
		return nil, p.usage(c, "--timeout %v: the server has to have some time, and a user who signs in", c.Duration("timeout"))
	case protocol != "" && protocol != "saga" && !slices.Contains(mcp.SupportedProtocolVersions(), protocol):
		return nil, p.usage(c, "--protocol is saga or one of %s, not %q", strings.Join(mcp.SupportedProtocolVersions(), ", "), protocol)
	}
	p.patience = c.Duration("timeout")
	options := client.Options{
		Name: p.name, Version: buildinfo.Version(), MaxRounds: c.Int("max-rounds"),
		Protocol: protocol, Sessions: legacy.Open, PreferTasks: c.Bool("detach"),
		Timeout: c.Duration("timeout"), RetryFor: max(c.Duration("retry-for"), time.Millisecond),
	}
	if as != "" {
		options.Lists = new(client.Handlers)
	}
	if as == "apps" {
		options.Extensions = map[string]any{appsExtension: map[string]any{"mimeTypes": []string{appType}}}
	}
	var once sync.Once
	options.OnRetry = func(err error) {
		once.Do(func() {
			p.bar.Clear()
			p.remark("%s; trying again", plain.Line(err.Error()))
		})
	}
	if target.Stdio != "" {
		// The log may hold texts of others, so a terminal gets it without control sequences.
		var log io.Writer = p.stderr
		if term.Is(p.stderr) {
			log = &plain.Writer{To: p.stderr}
		}
		shell := []string{"sh", "-c"}
		if runtime.GOOS == "windows" {
			shell = []string{"cmd", "/C"}
		}
		return client.New(&client.Stdio{Command: shell[0], Args: []string{shell[1], target.Stdio}, Dir: target.Dir, Stderr: log, Initialize: true}, options), nil
	}
	var err error
	if target.URL, err = p.endpoint(c, target.URL); err != nil {
		return nil, err
	}
	bearer, lines := c.String("bearer"), c.StringSlice("header")
	if other := c.String("server"); saved && address == "" && other != "" {
		if other, err = p.endpoint(c, other); err != nil {
			return nil, err
		}
		if strings.TrimSuffix(other, "/") != strings.TrimSuffix(target.URL, "/") { // which what is said beside it is for
			if bearer != "" && !onCommandLine(c, "bearer") {
				bearer, p.notSent = "", other
			}
			if len(lines) > 0 && !onCommandLine(c, "header") {
				lines, p.notSent = nil, other
			}
		}
	}
	header := http.Header{}
	for _, line := range lines {
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, p.usage(c, "--header %q is not of the form Name: value", line)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Host") {
			return nil, p.usage(c, "--header Host would not be sent: the host is that of --server")
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	transport := &client.HTTP{URL: target.URL, Bearer: bearer, Header: header}
	if transport.Bearer != "" || header.Get("Authorization") != "" {
		if c.Bool("login") {
			return nil, p.usage(c, "use either --login or a token of your own, by --bearer, %s_BEARER or --header", p.environment())
		}
		return client.New(transport, options), nil
	}
	if p.login, err = p.loginFor(ctx, c, target.URL); err != nil {
		return nil, err
	}
	if p.login != nil {
		transport.RoundTripper = p.login
	}
	return client.New(transport, options), nil
}

// withAdvice adds what to do when there is no server at all, or it says nothing, or wants a login.
func (p *program) withAdvice(err error) error {
	lost, ok := errors.AsType[*client.TransportError](err)
	refusal, refused := errors.AsType[*client.Error](err)
	switch {
	case refused && refusal.Code == codePageFirst:
		return &exitError{exitServer, fmt.Errorf("%w%s", err, pagesFirst(refusal.Data))}
	case ok && !lost.Sent:
		return &exitError{exitServer, fmt.Errorf("%w\nStart a server with %s serve, or name one with --server or --stdio", err, p.self)}
	case errors.Is(err, client.ErrTimeout):
		return &exitError{exitServer, fmt.Errorf("%w\nIt has %v to answer a request, unless --timeout gives it more", err, p.patience)}
	}
	return p.withLogin(err)
}

// codePageFirst is what servers of MCP 2025-11-25 answer whose user has to open a page before.
const codePageFirst = -32042

// pagesFirst names the pages of such an answer.
func pagesFirst(data json.RawMessage) string {
	var wanted struct {
		Elicitations []struct{ Message, URL string }
	}
	if json.Unmarshal(data, &wanted) != nil || len(wanted.Elicitations) == 0 {
		return ""
	}
	text := "\nThe server wants you to open, if you trust it, and then to try again:"
	for _, page := range wanted.Elicitations[:min(len(wanted.Elicitations), 10)] {
		text += fmt.Sprintf("\n  %s\n    %s", plain.Short(page.URL, 2000), plain.Short(page.Message, 1000))
	}
	return text
}

func (p *program) serverFailed(err error) error {
	if err = p.withAdvice(err); exitCode(err) == exitUsage {
		return &exitError{exitServer, err}
	}
	return err
}

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
