package auth

import (
	"net/http"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/server"
)

// maxToken is how long an access token may be; HTTP servers take headers of not much more.
const maxToken = 16 << 10

// credentials returns the access token of a request (RFC 6750, section 2.1), and whether it comes with a proof (RFC 9449,
// section 7.1): tokens in a URL or a body are none, as these end up in logs. It is "" if there is none, or nothing that could
// be one.
func credentials(r *http.Request) (token string, proving bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	proving = strings.EqualFold(scheme, "DPoP")
	if !proving && !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken {
		return "", proving
	}
	for i := range len(token) { // each request has one: strings.ContainsFunc takes five times as long
		if c := token[i]; c <= ' ' || c > '~' {
			return "", proving
		}
	}
	return token, proving
}

// Checking bounds what the checks of tokens cost.
type Checking struct {
	// Remember is for how long a token that was checked is not checked again: default, and at most, one minute. One that is
	// revoked works for so long. Negative is not at all.
	Remember time.Duration
	// MaxRemembered bounds the tokens that are remembered; default 10 000.
	MaxRemembered int
	// MaxChecks is how many tokens are checked at the same time: by default half as many as there are processors, and 16 where
	// an issuer is asked. More wait shortly, or get the status 503.
	MaxChecks int
	// MaxBad is how many bad tokens a second are checked: of all callers, by default 1000, and 100 where an issuer is asked; of one
	// caller a tenth, once as many have come. Then the status 503 is for all tokens of that caller, or of all, that are not remembered.
	MaxBad int
	// CallerKey tells callers apart for MaxBad, as in [server.Options]: by default by their public addresses; [server.ForwardedKey]
	// is for servers behind proxies. Those that it has no key for have the bound of all alone.
	CallerKey func(*http.Request) string
	// Client asks the issuer; by default one with a timeout of ten seconds, which follows no redirects.
	Client *http.Client
	// Now is the clock, for tests.
	Now func() time.Time
}

func (c *Checking) setDefaults(checks, bad int) {
	if c.Remember == 0 || c.Remember > time.Minute {
		c.Remember = time.Minute
	}
	if c.MaxRemembered <= 0 {
		c.MaxRemembered = 10_000
	}
	if c.MaxChecks <= 0 {
		c.MaxChecks = checks
	}
	if c.MaxBad <= 0 {
		c.MaxBad = bad
	}
	if c.CallerKey == nil {
		c.CallerKey, _ = server.ForwardedKey() // of no proxies
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}
