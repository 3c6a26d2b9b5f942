package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

// callback is where the browser comes back to, on a port of this machine (RFC 8252, section 7.3).
const callback = "/callback"

// offline is the scope for a refresh token, where an authorization server wants it asked for.
const offline = "offline_access"

// signIn has the user sign in, in a browser.
func (l *Login) signIn(ctx context.Context, old *kept, metadataURL string, scopes []string) (*kept, error) {
	resource, issues, err := l.discover(ctx, metadataURL)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Issuer != issues.Issuer {
		old = nil
	}
	if len(scopes) == 0 {
		scopes = resource.ScopesSupported
	}
	asked := slices.Clone(scopes)
	if slices.Contains(issues.ScopesSupported, offline) && !slices.Contains(asked, offline) {
		asked = append(asked, offline)
	}
	listener, client, err := l.client(ctx, old, issues)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	k := &kept{
		Server: l.o.Server, Resource: resource.Resource, Issuer: issues.Issuer,
		TokenURL: issues.TokenEndpoint, RevokeURL: issues.RevocationEndpoint, Client: client, Scopes: scopes,
	}
	config := k.config()
	config.RedirectURL, config.Scopes, config.Endpoint.AuthURL = client.Redirect, asked, issues.AuthorizationEndpoint
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	parameters := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), forResource(k.Resource)}
	if slices.Contains(asked, offline) {
		parameters = append(parameters, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect Core, section 11
	}
	address := config.AuthCodeURL(state, parameters...)
	answered := make(chan url.Values, 1)
	stop := receive(listener, state, answered)
	defer stop()
	l.o.Show(issues.Issuer, address, asked)
	var answer url.Values
	select {
	case answer = <-answered:
	case <-ctx.Done():
		err := context.Cause(ctx)
		if old != nil && !client.Given && client.ID == old.Client.ID { // of a client that it does not know it sends no browser back
			err = fmt.Errorf("%w; if the page does not know this client any more, forget the login by logout, and sign in again", err)
		}
		return nil, err
	}
	if err := checkAnswer(answer, issues); err != nil {
		return nil, err
	}
	return l.exchange(ctx, k, config, answer.Get("code"), oauth2.VerifierOption(verifier), forResource(k.Resource))
}

// client returns the client to sign in with, and listens where the browser is to come back to. The client of the last login
// is used again, as sagas may be bound to it: one that was registered here unless its port is in use.
func (l *Login) client(ctx context.Context, old *kept, issues *oauthex.AuthServerMeta) (_ net.Listener, c client, err error) {
	if old != nil && (l.o.ClientID == "" || l.o.ClientID == old.Client.ID) {
		c = old.Client
	}
	if back, bad := url.Parse(c.Redirect); c.ID != "" && !c.Given && bad == nil && outgoing.IsLoopback(back.Hostname()) {
		if listener, err := net.Listen("tcp", back.Host); err == nil {
			return listener, c, nil
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, c, err
	}
	redirect := "http://" + listener.Addr().String() + callback
	switch {
	case l.o.ClientID != "":
		c = client{ID: l.o.ClientID, Given: true, Redirect: redirect}
	case c.Given:
		c.Redirect = redirect
	default:
		if c, err = l.register(ctx, issues, redirect); err != nil {
			_ = listener.Close()
		}
	}
	return listener, c, err
}

// receive waits for the browser to come back with the state that it was sent away with, and says in the browser what that
// means. Whatever else comes is refused, and ends nothing: any page can send a browser here.
func receive(listener net.Listener, state string, answered chan<- url.Values) (stop func()) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callback, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("This is not the answer to the sign-in that the command waits for.\n"))
			return
		}
		_, _ = w.Write([]byte("Done here. Close this page; the terminal says what came of it.\n"))
		select {
		case answered <- q:
		default: // it is answered
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: answerIn, MaxHeaderBytes: 64 << 10}
	go func() { _ = server.Serve(listener) }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // for the page
		defer cancel()
		_ = server.Shutdown(ctx)
		_ = server.Close()
	}
}

// checkAnswer refuses what another authorization server says (RFC 9207), and reads why this one refuses.
func checkAnswer(answer url.Values, issues *oauthex.AuthServerMeta) error {
	iss := answer["iss"]
	switch {
	case len(iss) == 0 && issues.AuthorizationResponseIssParameterSupported:
		return fmt.Errorf("the answer does not say that it is of %s (iss), which says that all of its answers do", issues.Issuer)
	case len(iss) > 1, len(iss) == 1 && iss[0] != issues.Issuer:
		return fmt.Errorf("the answer is of the issuer %s, not of %s", short(strings.Join(iss, " ")), issues.Issuer)
	case answer.Get("error") == "access_denied":
		return fmt.Errorf("it was denied at %s: %s", issues.Issuer, short(answer.Get("error_description")))
	case answer.Get("error") != "":
		return fmt.Errorf("%s refuses it: %s", issues.Issuer, short(answer.Get("error")+" "+answer.Get("error_description")))
	case answer.Get("code") == "":
		return errors.New("the answer has no code")
	}
	return nil
}

// short is a text of a server, in one line of a bounded length.
func short(text string) string { return plain.Short(text, 300) }
