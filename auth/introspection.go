package auth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Introspection says which access tokens are taken that only their issuer can read (RFC 7662). Issuer and Audiences
// are required, and the credentials that the issuer demands.
type Introspection struct {
	// Issuer is the authorization server's. Answers that name another are refused; those that name none are of this one.
	Issuer string
	// URL is where the issuer is asked, if that is not to be found as "introspection_endpoint" in its metadata.
	URL string
	// ClientID and ClientSecret are by which this server shows who it is. For other ways set Client.
	ClientID, ClientSecret string
	// WithoutAudience takes tokens also if the answer has no "aud" at all; one for others is refused as ever. Only for an
	// issuer that says of tokens for other servers that they are not active: otherwise those would be taken here.
	WithoutAudience bool
	Mapping
	Checking
}

type introspectionMethod struct {
	Introspection
	at *discovery
}

// NewIntrospection returns a method that asks one issuer about access tokens. It takes any: name it behind the others.
func NewIntrospection(o Introspection) (Method, error) {
	if o.Issuer == "" {
		return nil, errors.New("auth: Introspection.Issuer is required")
	}
	if err := errors.Join(o.complete(), checkURL(cmp.Or(o.URL, o.Issuer))); err != nil {
		return nil, err
	}
	o.setDefaults(16, 100)
	o.unaddressed, o.endless = o.WithoutAudience, true
	return newTokenMethod(&introspectionMethod{o, newDiscovery(o.Issuer, &o.Checking)}, &o.Checking), nil
}

func (m *introspectionMethod) takes(string) bool { return true }

func (m *introspectionMethod) read(ctx context.Context, _ *pass, token string) (map[string]any, error) { // its place bounds what the issuer is asked
	claims, err := m.ask(ctx, token)
	if status, ok := errors.AsType[*statusError](err); ok && status.code == http.StatusBadRequest { // some say so of tokens of another kind
		return map[string]any{"active": false}, nil
	}
	if err != nil {
		return nil, away("the authorization server cannot be asked", err)
	}
	return claims, nil
}

func (m *introspectionMethod) judge(ctx context.Context, claims map[string]any) (who saga.Caller, err error) {
	if active, _ := claims["active"].(bool); !active {
		return who, errors.New("the authorization server says that the token is not active")
	}
	if issuer := text(claims["iss"]); issuer != "" && issuer != m.Issuer {
		return who, errors.New("the token is of another issuer")
	}
	return m.caller(ctx, m.Issuer, claims, m.Now())
}

func (m *introspectionMethod) probe(ctx context.Context) error {
	_, err := m.endpoint(ctx)
	return err
}

func (m *introspectionMethod) endpoint(ctx context.Context) (string, error) {
	return m.at.endpoint(ctx, m.URL, "introspection_endpoint")
}

func (m *introspectionMethod) ask(ctx context.Context, token string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout) // whatever the Client allows: a place is held meanwhile
	defer cancel()
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	at, err := m.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if m.ClientID != "" {
		request.SetBasicAuth(url.QueryEscape(m.ClientID), url.QueryEscape(m.ClientSecret)) // RFC 6749, section 2.3.1
	}
	raw, err := fetchBody(m.Client, request, maxToken)
	if err != nil {
		return nil, err
	}
	return decodeClaims(raw)
}
