package auth

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	proofAge = 5 * time.Minute // how far a proof's time may be from now, either way (SEP-1932)
	maxProof = 4 << 10
)

// proofAlgorithms are those of keys that are small and fast to check.
var proofAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA}

// proofAlgorithms are what clients may sign proofs by; none if none are taken.
func (g *Guard) proofAlgorithms() (names []string) {
	if g.opts.DPoP {
		for _, a := range proofAlgorithms {
			names = append(names, string(a))
		}
	}
	return names
}

// proofs checks that a client has the key to which its token is bound (RFC 9449, section 4.3).
type proofs struct {
	required     bool // tokens that are bound to no key are refused
	origin, path string
	seen         *memory
}

func newProofs(resource string, required bool) *proofs {
	u, _ := url.Parse(resource) // newMetadata has read it
	seen := &memory{most: 2 * proofAge, now: time.Now, all: recent[tokenHash, known]{size: 50_000}}
	return &proofs{required: required, origin: originOf(u), path: strings.TrimRight(u.EscapedPath(), "/"), seen: seen}
}

// proofError says what is wrong with a proof, not with its token.
type proofError struct{ error }

// check refuses a token, bound to the key of a thumbprint or to none, that does not come as it should. A nil proofs takes no
// token that is bound.
func (p *proofs) check(r *http.Request, token, thumbprint string) error {
	_, proving := credentials(r)
	switch {
	case thumbprint == "" && proving:
		return errors.New("it comes with a proof, but is bound to no key")
	case thumbprint == "" && p != nil && p.required:
		return errors.New("it is bound to no key (DPoP), as it should be")
	case thumbprint == "":
		return nil
	case p == nil || !proving:
		return errors.New("it is bound to a key (DPoP), which a bearer does not show")
	}
	if err := p.checkProof(r, token, thumbprint); err != nil {
		return proofError{fmt.Errorf("the proof: %w", err)}
	}
	return nil
}

func (p *proofs) checkProof(r *http.Request, token, thumbprint string) error {
	values := r.Header.Values("DPoP")
	if len(values) != 1 || len(values[0]) > maxProof {
		return errors.New("there must be one header DPoP, of 4 KiB at most")
	}
	proof, err := jose.ParseSignedCompact(values[0], proofAlgorithms)
	if err != nil {
		return err
	}
	header := proof.Signatures[0].Protected
	if header.ExtraHeaders[jose.HeaderType] != "dpop+jwt" || header.JSONWebKey == nil {
		return errors.New("its header needs the type dpop+jwt and a key")
	}
	// The issuer has bound the token to a key of this thumbprint, so no other key costs a check of a signature.
	if sum, err := header.JSONWebKey.Thumbprint(crypto.SHA256); err != nil || base64.RawURLEncoding.EncodeToString(sum) != thumbprint {
		return errors.New("it is of another key than the token's")
	}
	payload, err := proof.Verify(header.JSONWebKey)
	if err != nil {
		return err
	}
	claims, err := decodeClaims(payload)
	if err != nil {
		return err
	}
	return p.checkClaims(r, token, thumbprint, claims)
}

func (p *proofs) checkClaims(r *http.Request, token, thumbprint string, claims map[string]any) error {
	hash := sha256.Sum256([]byte(token))
	id := text(claims["jti"])
	switch age := time.Since(seconds(claims["iat"])); {
	case text(claims["htm"]) != r.Method:
		return fmt.Errorf("it is for the method %.20q", text(claims["htm"]))
	case !p.isFor(text(claims["htu"]), r):
		return fmt.Errorf("it is for the URL %.200q", text(claims["htu"]))
	case text(claims["ath"]) != base64.RawURLEncoding.EncodeToString(hash[:]):
		return errors.New("it is for another token")
	case age > proofAge || age < -proofAge:
		return errors.New("its time is more than five minutes from now: is the client's clock right?")
	case id == "":
		return errors.New("it has no jti")
	case !p.seen.first(sha256.Sum256([]byte(thumbprint + id))):
		return errors.New("it has been used before")
	}
	return nil
}

// isFor reports whether a URL is that of the resource, or at its origin that of the request: a proxy may have taken away
// the beginning of a path.
func (p *proofs) isFor(at string, r *http.Request) bool {
	u, err := url.Parse(at)
	if err != nil || u.User != nil || originOf(u) != p.origin {
		return false
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return path == p.path || path == strings.TrimRight(r.URL.EscapedPath(), "/")
}

// originOf is a URL's scheme and host, without the port that goes without saying.
func originOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return u.Scheme + "://" + host
}
