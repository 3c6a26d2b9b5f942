// Package login signs the user of a command in for an MCP server, as MCP asks of clients (OAuth 2.1 with RFC 7591, 7636,
// 8252, 8707, 9207 and 9728), and keeps what came of it for the next command. This file carries requests, kept.go keeps,
// discovery.go finds the authorization server, signin.go asks the user, and tokens.go gets, renews and revokes tokens.
package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

// Options say for which server, and how the user is asked. Server, Dir and Inner are required.
type Options struct {
	Server string // the URL of the MCP endpoint
	Dir    string // is where logins are kept
	// Client is what authorization servers call the program. ClientID is that of a client that is registered already;
	// without it, one is registered.
	Client, ClientID string
	// Show has the user open an address in a browser. nil means that the user is not to be asked: then only what is kept
	// is used.
	Show func(issuer, address string, scopes []string)
	// Wait is how long the user has.
	Wait  time.Duration
	Inner http.RoundTripper // sends the requests
}

// Login sends requests to one server with the access token that is kept for it. If the server wants another, it renews
// that, or has the user sign in. It is safe for concurrent use.
type Login struct {
	ctx    context.Context // of the command
	o      Options
	server *url.URL
	place  place

	now atomic.Pointer[kept] // what is kept, as far as is known here; nil is nothing

	mu    sync.Mutex
	tried map[string]error // what came of the user being asked to sign in, by the scopes
	err   error            // why there is no good token
}

// New returns a Login. Until ctx ends tokens are renewed and the user signs in, also if the request gives up that wanted it:
// the next one has what came of it. New fails if what is kept for the server cannot be read, or a token would cross the
// network in the clear.
func New(ctx context.Context, o Options) (*Login, error) {
	server, err := url.Parse(o.Server)
	if err != nil {
		return nil, err
	}
	l := &Login{ctx: ctx, o: o, server: server, place: placeOf(o.Dir, o.Server), tried: make(map[string]error)}
	if server.Scheme != "https" && !outgoing.IsLoopback(server.Hostname()) {
		if o.Show != nil {
			return nil, fmt.Errorf("an access token would cross the network in the clear to %s: use https", server.Host)
		}
		return l, nil
	}
	k, err := l.place.load()
	l.now.Store(k)
	return l, err
}

// Err says why the last refusal of the server was not answered with a better token; nil if there was none.
func (l *Login) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// RoundTrip implements [http.RoundTripper]. If there is no token that the server takes, its refusal is the response. A
// request with a body needs GetBody.
func (l *Login) RoundTrip(r *http.Request) (*http.Response, error) {
	for renewed := false; ; {
		token := l.now.Load().token()
		response, err := l.send(r, token)
		if err != nil {
			return nil, err
		}
		wants, refused := refusal(response)
		if !refused {
			return response, nil
		}
		improved := make(chan error, 1)
		go func() {
			err := l.improve(token, wants, &renewed)
			l.mu.Lock()
			l.err = err
			l.mu.Unlock()
			improved <- err
		}()
		select {
		case err = <-improved:
		case <-r.Context().Done():
			err = context.Cause(r.Context())
		}
		if err != nil {
			return response, nil
		}
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
		_ = response.Body.Close()
	}
}

// send sends a copy of the request with a token, unless that is empty.
func (l *Login) send(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.GetBody != nil {
		var err error
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return l.o.Inner.RoundTrip(r)
}

// wants is what a server wants before it serves a request.
type wants struct {
	metadata string   // is where it says who issues its tokens; may be empty
	scopes   []string // that it names
	more     bool     // the token is good, but has too few scopes
}

// refusal reads what a refused request wants.
func refusal(r *http.Response) (w wants, refused bool) {
	if r.StatusCode != http.StatusUnauthorized && r.StatusCode != http.StatusForbidden {
		return w, false
	}
	challenges, err := oauthex.ParseWWWAuthenticate(r.Header.Values("WWW-Authenticate"))
	if i := slices.IndexFunc(challenges, func(c oauthex.Challenge) bool { return c.Scheme == "bearer" }); err == nil && i >= 0 {
		params := challenges[i].Params
		w = wants{metadata: params["resource_metadata"], scopes: strings.Fields(params["scope"]), more: params["error"] == "insufficient_scope"}
	}
	return w, r.StatusCode == http.StatusUnauthorized || w.more
}

// The user is not to be asked, and would have to be:
var (
	ErrNone = errors.New("there is no login")                         // or none that can be renewed
	ErrMore = errors.New("the login has not the scopes for all this") // which the server wants
)

// improve gets a token in place of one that was refused: another command has got one, or it is renewed, or the user signs
// in. Commands that want so at once wait for each other: a token is renewed once, and the user is asked once. renewed is
// whether that has been tried for this request.
func (l *Login) improve(refused string, w wants, renewed *bool) error {
	if l.o.Show == nil && l.place.empty() {
		return ErrNone // without a file to lock
	}
	unlock, err := l.place.lock(l.ctx)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := l.place.load()
	if err != nil {
		return err
	}
	l.now.Store(old)
	if token := old.token(); token != "" && token != refused {
		return nil
	}
	var next *kept
	if !w.more && !*renewed && old != nil && old.Refresh != "" {
		*renewed = true
		next, err = l.renew(l.ctx, old)
		switch code := refusedFor(err); {
		case err != nil && code == "":
			return fmt.Errorf("the access token cannot be renewed now: %w", err)
		case code == "invalid_client":
			old.Client = client{} // it is no longer registered
		}
	}
	if next == nil {
		if next, err = l.again(old, w); err != nil {
			return err
		}
	}
	if err := l.place.save(next); err != nil {
		return fmt.Errorf("the login cannot be kept: %w", err)
	}
	l.now.Store(next)
	return nil
}

// maxSignIns bounds how often a command has the user sign in: a server could name other scopes each time.
const maxSignIns = 5

// again has the user sign in, at most once for the same scopes.
func (l *Login) again(old *kept, w wants) (*kept, error) {
	switch {
	case l.o.Show == nil && w.more:
		return nil, ErrMore
	case l.o.Show == nil:
		return nil, ErrNone
	}
	if w.more && len(w.scopes) == 0 {
		return nil, errors.New("the server wants an access token with more scopes, and does not say which")
	}
	scopes := slices.Clone(w.scopes)
	if old != nil {
		scopes = append(scopes, old.Scopes...)
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	set := strings.Join(scopes, " ")
	l.mu.Lock()
	err, tried := l.tried[set]
	times := len(l.tried)
	l.mu.Unlock()
	switch {
	case tried && err == nil:
		return nil, fmt.Errorf("the server refuses the access token that its authorization server has just issued for it (scopes: %s)", short(set))
	case tried:
		return nil, err
	case times == maxSignIns:
		return nil, fmt.Errorf("the server wants other scopes after %d sign-ins: %s", times, short(set))
	}
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.o.Wait, fmt.Errorf("it was not finished within %v, which --timeout extends", l.o.Wait))
	defer cancel()
	next, err := l.signIn(ctx, old, w.metadata, scopes)
	if refusedFor(err) == "invalid_client" && l.o.ClientID == "" && old != nil && old.Client.ID != "" && !old.Client.Given {
		// The client of the last login is no longer registered, and without a refresh token that shows only now.
		anew := *old
		anew.Client = client{}
		next, err = l.signIn(ctx, &anew, w.metadata, scopes)
	}
	if err != nil {
		err = fmt.Errorf("signing in failed: %w", err)
	}
	l.mu.Lock()
	l.tried[set] = err
	l.mu.Unlock()
	return next, err
}

// Forget removes what is kept for the server, and revokes its tokens where the authorization server can. It reports
// whether there was anything.
func (l *Login) Forget() (was bool, err error) {
	if l.place.empty() {
		return false, nil
	}
	unlock, err := l.place.lock(l.ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	old, err := l.place.load()
	if err := errors.Join(err, l.place.remove()); err != nil || old == nil {
		return old != nil, err
	}
	if err := l.revoke(l.ctx, old); err != nil {
		return true, fmt.Errorf("the login is removed from here, but %s has not revoked its tokens: %w", old.Issuer, err)
	}
	return true, nil
}
