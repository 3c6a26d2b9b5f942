package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
)

// JWT says which access tokens are taken that are JSON Web Tokens (RFC 9068, and others like these). Issuer and Audiences
// are required.
type JWT struct {
	// Issuer is the claim "iss", exactly. A {name} in it stands for the token's claim of that name, as in
	// "https://login.microsoftonline.com/{tid}/v2.0": that takes tokens of all tenants, which Check should narrow.
	Issuer string
	// KeysURL is where the issuer has its keys, if it is not to be found as "jwks_uri" in its metadata. An Issuer with a {name}
	// needs it.
	KeysURL string
	Mapping
	// Algorithms may have signed. By default RS256, PS256, ES256 and EdDSA. Those with a shared secret are refused.
	Algorithms []string
	// OnlyAccessTokens refuses tokens whose header does not say that they are access tokens (RFC 9068: "at+jwt").
	OnlyAccessTokens bool
	// FetchEvery is the least time between two fetches of keys, however many tokens name a key that is unknown;
	// default 30 seconds.
	FetchEvery time.Duration
	Checking
}

type jwtMethod struct {
	JWT
	keys *keys
}

// NewJWT returns a method that takes access tokens of one issuer. It asks the issuer for nothing before the first token
// comes.
func NewJWT(o JWT) (Method, error) {
	if o.Issuer == "" || strings.HasPrefix(o.Issuer, "{") {
		return nil, errors.New("auth: JWT.Issuer is required")
	}
	if o.KeysURL == "" && claimInIssuer.MatchString(o.Issuer) {
		return nil, errors.New("auth: JWT.KeysURL is required for issuers of several names")
	}
	if err := errors.Join(o.complete(), checkURL(cmp.Or(o.KeysURL, o.Issuer))); err != nil {
		return nil, err
	}
	if o.Algorithms == nil {
		o.Algorithms = []string{"RS256", "PS256", "ES256", "EdDSA"}
	}
	for _, a := range o.Algorithms {
		if !slices.Contains([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}, a) {
			return nil, fmt.Errorf("auth: JWT.Algorithms has %q: it must be an algorithm of asymmetric keys", a)
		}
	}
	if o.FetchEvery <= 0 {
		o.FetchEvery = 30 * time.Second
	}
	o.setDefaults(max(1, runtime.GOMAXPROCS(0)/2), 1000)
	m := newTokenMethod(&jwtMethod{o, newKeys(&o)}, &o.Checking)
	m.jwts = true
	return m, nil
}

func (m *jwtMethod) probe(ctx context.Context) error { return m.keys.refresh(ctx) }

// takes is about what a token of three parts says of itself: nothing is decided by it but whose keys are used.
func (m *jwtMethod) takes(token string) bool {
	claims := unverified(token)
	return m.isIssuer(func(name string) string {
		s, _ := jsonview.String(jsonview.Get(claims, name))
		return s
	})
}

func (m *jwtMethod) read(ctx context.Context, place *pass, token string) (map[string]any, error) {
	issued := json.Number(jsonview.Get(unverified(token), "iat")) // only whether the keys may be too old is decided by it
	payload, err := m.keys.verify(ctx, place, token, seconds(issued))
	if err != nil {
		return nil, err
	}
	return decodeClaims(payload)
}

func (m *jwtMethod) judge(ctx context.Context, claims map[string]any) (who saga.Caller, err error) {
	if !m.isIssuer(func(name string) string { return text(claims[name]) }) {
		return who, errors.New("the token is of another issuer")
	}
	return m.caller(ctx, text(claims["iss"]), claims, m.Now())
}

var claimInIssuer = regexp.MustCompile(`\{\w+\}`)

// isIssuer reports whether claims say that they are of the issuer.
func (m *jwtMethod) isIssuer(claim func(name string) string) bool {
	return claim("iss") == claimInIssuer.ReplaceAllStringFunc(m.Issuer, func(name string) string {
		return cmp.Or(claim(name[1:len(name)-1]), "\x00") // no claim, no issuer
	})
}

// unverified returns the claims of a token as it has them, perhaps no JSON; nil if they are not encoded right. Any number of tokens that are not counted as bad
// come here: it copies no claim.
func unverified(token string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return nil
	}
	return raw
}
