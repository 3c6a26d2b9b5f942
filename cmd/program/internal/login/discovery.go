package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

// maxAnswer bounds what an authorization server answers, and what is read of metadata, in bytes.
const maxAnswer = 256 << 10

// answerIn is how long it may take.
const answerIn = 30 * time.Second

// wellKnown is where servers say who issues their tokens (RFC 9728, section 3), unless a challenge names another place.
const wellKnown = "/.well-known/oauth-protected-resource"

// discover finds out who issues tokens for the server, and under which name. What the server says has to be about
// itself, and what the authorization server says, too: the SDK compares both.
func (l *Login) discover(ctx context.Context, metadataURL string) (*oauthex.ProtectedResourceMetadata, *oauthex.AuthServerMeta, error) {
	root := url.URL{Scheme: l.server.Scheme, Host: l.server.Host}
	type candidate struct{ url, resource string }
	candidates := []candidate{
		{root.String() + wellKnown + strings.TrimRight(l.server.EscapedPath(), "/"), l.o.Server},
		{root.String() + wellKnown, root.String()},
	}
	if metadataURL != "" {
		candidates = []candidate{{metadataURL, l.o.Server}}
	}
	var resource *oauthex.ProtectedResourceMetadata
	var failures []error
	for _, c := range candidates {
		var err error
		if resource, err = oauthex.GetProtectedResourceMetadata(ctx, c.url, c.resource, l.outside()); err == nil {
			break
		}
		failures = append(failures, errors.New(short(err.Error())))
	}
	if resource == nil {
		return nil, nil, fmt.Errorf("the server does not say who issues its access tokens: %w", errors.Join(failures...))
	}
	if resource.DPOPBoundAccessTokensRequired {
		return nil, nil, errors.New("the server takes access tokens with DPoP only, which this command does not have")
	}
	if len(resource.AuthorizationServers) == 0 {
		return nil, nil, errors.New("the server names no authorization server")
	}
	issuer := resource.AuthorizationServers[0]
	issues, err := auth.GetAuthServerMetadata(ctx, issuer, l.outside())
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the authorization server %s: %s", short(issuer), short(err.Error()))
	case issues == nil:
		return nil, nil, fmt.Errorf("the authorization server %s has no metadata (RFC 8414)", short(issuer))
	case !slices.Contains(issues.CodeChallengeMethodsSupported, "S256"):
		return nil, nil, fmt.Errorf("the authorization server %s does not take PKCE with S256", short(issuer))
	}
	for _, endpoint := range []string{issues.AuthorizationEndpoint, issues.TokenEndpoint} {
		if u, err := url.Parse(endpoint); err != nil || l.check(u) != nil {
			return nil, nil, fmt.Errorf("the authorization server %s names an address that is not to be used: %s", short(issuer), short(endpoint))
		}
	}
	return resource, issues, nil
}

// outside is a client for addresses that servers name.
func (l *Login) outside() *http.Client {
	return &http.Client{Transport: outsider{l}, CheckRedirect: outgoing.CheckRedirect, Timeout: answerIn}
}

// outsider sends requests to addresses that servers name, and bounds what these answer.
type outsider struct{ *Login }

// RoundTrip implements [http.RoundTripper].
func (o outsider) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := o.check(r.URL); err != nil {
		return nil, err
	}
	response, err := o.o.Inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := outgoing.ReadAll(response.Body, maxAnswer)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// check refuses addresses without TLS, and this machine unless the server is on it: another server would have the
// command send requests to what listens here. What TLS leads to elsewhere has shown a certificate for its name.
func (l *Login) check(u *url.URL) error {
	switch local := outgoing.IsLoopback(u.Hostname()); {
	case u.Host == "" || u.User != nil:
		return errors.New("it is not the address of a server")
	case local && !outgoing.IsLoopback(l.server.Hostname()):
		return fmt.Errorf("%s is on this machine, and the server is not", u.Host)
	case local && u.Scheme == "http", u.Scheme == "https":
		return nil
	}
	return fmt.Errorf("%s://%s is without TLS: it has to be https", u.Scheme, u.Host)
}
