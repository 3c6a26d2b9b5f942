package auth

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// unauthorized refuses a request that has no credentials (code is empty then: RFC 6750, section 3.1), or bad ones.
func (g *Guard) unauthorized(r *http.Request, code string, why error) error {
	return &server.AuthError{Status: http.StatusUnauthorized, Challenge: g.challenge(r, code, g.opts.FirstScopes), Err: why}
}

// forbidden refuses a caller for want of scopes. Its challenge has all that the request takes, and of what the caller has
// already what means something here: a client that asks for just that loses nothing.
func (g *Guard) forbidden(who saga.Caller, r *http.Request, needs []string) error {
	scopes := slices.Concat(g.opts.Scopes, needs)
	for _, s := range g.known {
		if who.HasScope(s) && !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return &server.AuthError{
		Status:    http.StatusForbidden,
		Challenge: g.challenge(r, "insufficient_scope", scopes),
		Err:       errors.New("too few scopes; it takes " + strings.Join(slices.Concat(g.opts.Scopes, needs), " ")),
	}
}

// descriptions are for who reads the codes of challenges.
var descriptions = map[string]string{
	"invalid_token":      "the access token is not valid here, or no longer",
	"invalid_dpop_proof": "the proof is not valid for this request and access token",
	"insufficient_scope": "this takes scopes that the access token does not have",
}

// challenge is a header WWW-Authenticate (RFC 6750, section 3; RFC 9728, section 5.1). Nothing in it has quotes or
// backslashes: New has seen to that.
func (g *Guard) challenge(r *http.Request, code string, scopes []string) string {
	parts := []string{`resource_metadata="` + g.metadata.urlFor(r) + `"`}
	if code != "" {
		parts = append(parts, `error="`+code+`"`, `error_description="`+descriptions[code]+`"`)
	}
	if asked := g.asked(scopes); len(asked) > 0 {
		parts = append(parts, `scope="`+strings.Join(asked, " ")+`"`)
	}
	return g.schemes(r, strings.Join(parts, ", "))
}

// schemes has a challenge's parameters for the scheme that a client uses (RFC 9449, section 7.1), and offers the other.
func (g *Guard) schemes(r *http.Request, parameters string) string {
	if !g.opts.DPoP {
		return "Bearer " + parameters
	}
	proving := g.opts.RequireDPoP
	if r != nil && !proving {
		_, proving = credentials(r)
	}
	algorithms := `algs="` + strings.Join(g.proofAlgorithms(), " ") + `"`
	if proving {
		return "DPoP " + parameters + ", " + algorithms
	}
	return "Bearer " + parameters + ", DPoP " + algorithms
}

// asked are scopes as clients ask for them, each once.
func (g *Guard) asked(scopes []string) (asked []string) {
	for _, s := range scopes {
		if s = g.opts.ScopePrefix + s; !slices.Contains(asked, s) {
			asked = append(asked, s)
		}
	}
	return asked
}

// has reports whether a caller's scopes cover all that are needed.
func (g *Guard) has(who saga.Caller, needed []string) bool {
	return !slices.ContainsFunc(needed, func(n string) bool {
		return !slices.ContainsFunc(who.Scopes, func(s string) bool { return g.opts.Covers(s, n) })
	})
}

func covers(granted, needed string) bool {
	rest, ok := strings.CutPrefix(needed, granted)
	return ok && granted != "" && (rest == "" || rest[0] == ':')
}

// isScope reports whether a text is a scope token (RFC 6749, section 3.3).
func isScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// refuse writes what a server would.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	status, text := http.StatusServiceUnavailable, `{"error":"temporarily_unavailable"}`
	if auth, ok := errors.AsType[*server.AuthError](err); ok {
		status, text = auth.Status, `{"error":"unauthorized"}`
		w.Header().Set("WWW-Authenticate", auth.Challenge)
		if status == http.StatusForbidden {
			text = `{"error":"insufficient_scope"}`
		}
	} else {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
