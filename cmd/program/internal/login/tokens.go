package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// client is an OAuth client at an authorization server. It is public; a secret that the authorization server gives it
// all the same is kept.
type client struct {
	ID       string `json:"id"`
	Secret   string `json:"secret,omitempty"`
	InHeader bool   `json:"inHeader,omitempty"` // the secret is sent in a header
	Given    bool   `json:"given,omitempty"`    // it was not registered here
	Redirect string `json:"redirect"`
}

// register registers a client of one user, on this machine.
func (l *Login) register(ctx context.Context, issues *oauthex.AuthServerMeta, redirect string) (c client, err error) {
	if issues.RegistrationEndpoint == "" {
		return c, fmt.Errorf("%s registers no clients: register one there with the redirect http://127.0.0.1%s on any port, and name it with --client-id", issues.Issuer, callback)
	}
	is, err := oauthex.RegisterClient(ctx, issues.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, ClientName: l.o.Client, ApplicationType: "native", TokenEndpointAuthMethod: "none",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	}, l.outside())
	if err != nil {
		return c, fmt.Errorf("%s registers no client: %s", issues.Issuer, short(err.Error()))
	}
	inHeader := is.ClientSecret != "" && is.TokenEndpointAuthMethod != "client_secret_post"
	return client{ID: is.ClientID, Secret: is.ClientSecret, InHeader: inHeader, Redirect: redirect}, nil
}

func (k *kept) config() *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if k.Client.InHeader {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{ClientID: k.Client.ID, ClientSecret: k.Client.Secret, Endpoint: oauth2.Endpoint{TokenURL: k.TokenURL, AuthStyle: style}}
}

// forResource says for which server a token is to be (RFC 8707).
func forResource(resource string) oauth2.AuthCodeOption {
	return oauth2.SetAuthURLParam("resource", resource)
}

// renew gets new tokens for the refresh token.
func (l *Login) renew(ctx context.Context, k *kept) (*kept, error) {
	// The library's own way has no resource. An empty code is none (RFC 6749, section 3.2).
	return l.exchange(ctx, k, k.config(), "", oauth2.SetAuthURLParam("grant_type", "refresh_token"),
		oauth2.SetAuthURLParam("refresh_token", k.Refresh), forResource(k.Resource))
}

// exchange returns k with the tokens that the authorization server issues.
func (l *Login) exchange(ctx context.Context, k *kept, config *oauth2.Config, code string, options ...oauth2.AuthCodeOption) (*kept, error) {
	token, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, l.outside()), code, options...)
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return nil, &refusedError{refused.ErrorCode, fmt.Sprintf("%s issues no token: %s", k.Issuer, short(refused.Response.Status+" "+refused.ErrorCode+" "+refused.ErrorDescription))}
	}
	if err != nil {
		return nil, fmt.Errorf("%s issues no token: %s", k.Issuer, short(err.Error()))
	}
	if token.Type() != "Bearer" {
		return nil, fmt.Errorf("%s issues a token of the type %s, not Bearer", k.Issuer, short(token.TokenType))
	}
	if strings.ContainsFunc(token.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s issues a token that no header can have", k.Issuer)
	}
	next := *k
	next.Access = token.AccessToken
	if token.RefreshToken != "" {
		next.Refresh = token.RefreshToken
	}
	if granted, _ := token.Extra("scope").(string); granted != "" {
		next.Scopes = slices.DeleteFunc(strings.Fields(granted), func(s string) bool { return s == offline })
	}
	return &next, nil
}

// refusedError is a refusal of an authorization server, which has said why. What else it has answered may hold secrets.
type refusedError struct{ code, text string }

func (e *refusedError) Error() string { return e.text }

// refusedFor is why an authorization server refuses a refresh token for good, or the client that has it; "" if it does not.
func refusedFor(err error) string {
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.code != "temporarily_unavailable" && refused.code != "server_error" {
		return refused.code
	}
	return ""
}

// revoke has the authorization server forget the tokens (RFC 7009): with a refresh token go the access tokens, of which many
// cannot be revoked by themselves.
func (l *Login) revoke(ctx context.Context, k *kept) error {
	if k.RevokeURL == "" {
		return nil
	}
	form := url.Values{"token": {k.Refresh}, "token_type_hint": {"refresh_token"}}
	if k.Refresh == "" {
		form = url.Values{"token": {k.Access}, "token_type_hint": {"access_token"}}
	}
	if !k.Client.InHeader {
		form.Set("client_id", k.Client.ID)
		if k.Client.Secret != "" {
			form.Set("client_secret", k.Client.Secret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.RevokeURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if k.Client.InHeader {
		r.SetBasicAuth(url.QueryEscape(k.Client.ID), url.QueryEscape(k.Client.Secret))
	}
	response, err := l.outside().Do(r)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return err
}
