package auth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Mapping says what the claims of a token mean. The zero value fits most providers.
type Mapping struct {
	// Audiences are the values of "aud" of which one is demanded: the resource's URL, or what the provider writes for it, such
	// as "api://…" or a GUID. A slash at the end makes no difference. Required.
	Audiences []string
	// Subject is the claim that names the user; by default "sub". It must be unique at the issuer, and never be given to
	// another user, as an e-mail address may be.
	Subject string
	// Scopes are the claims that have the scopes, as a text with spaces or a list; by default "scope" and "scp".
	Scopes []string
	// Claims are the names of those that tools are to know. A claim of several values, or of one that begins with a bracket, is
	// a JSON list of texts there. [saga.Caller] bounds them: a token with more gets the status 403, and the log says so.
	Claims []string
	// Machines takes tokens that name no user, as some providers' of client credentials do, for their client's: the subject
	// is "client:" and its id. Not for a provider that leaves out users. Users whose subject begins so are refused.
	Machines bool
	// BindClient has the client application in [saga.Caller], and so ties sagas, sessions and tasks to it. Otherwise they are
	// the user's, whatever client continues them: clients that register themselves are often another one after each
	// sign-in, also when they only ask for one more scope.
	BindClient bool
	// Check is asked last, if it is set, with all claims: for instance whether the tenant is a customer. Its error refuses the
	// token; one that [server.TryAgain] made is for later. Its context ends after ten seconds, which is for later as well. It
	// holds up requests with the same token alone: if it does not heed its context, until their clients leave.
	Check func(ctx context.Context, claims map[string]any) error

	unaddressed bool // tokens without "aud" are taken
	endless     bool // as are those without "exp"
}

func (m *Mapping) complete() error {
	if m.Subject == "" {
		m.Subject = "sub"
	}
	if m.Scopes == nil {
		m.Scopes = []string{"scope", "scp"}
	}
	if len(m.Audiences) == 0 || slices.Contains(m.Audiences, "") {
		return errors.New("auth: Audiences is required: otherwise tokens for any other server would be taken")
	}
	return nil
}

// checkTimeout bounds a Mapping.Check.
const checkTimeout = 10 * time.Second

// machine begins the subject of a machine that has no other.
const machine = "client:"

// caller says whom verified claims stand for.
func (m *Mapping) caller(ctx context.Context, issuer string, claims map[string]any, now time.Time) (who saga.Caller, err error) {
	if aud := texts(claims["aud"]); !m.isFor(aud) && !(m.unaddressed && claims["aud"] == nil) {
		return who, fmt.Errorf("the token is for %q", aud)
	}
	if err := errors.Join(accessToken(claims), m.checkTimes(claims, now)); err != nil {
		return who, err
	}
	who = saga.Caller{Issuer: issuer, Subject: text(claims[m.Subject])}
	client := cmp.Or(text(claims["client_id"]), text(claims["azp"]), text(claims["appid"]))
	if m.BindClient {
		who.Client = client
	}
	switch {
	case m.Machines && strings.HasPrefix(who.Subject, machine):
		return who, fmt.Errorf("the subject begins with %q, as those of machines do here", machine)
	case who.Subject == "" && m.Machines && client != "":
		who.Subject = machine + client
	case who.Subject == "":
		return who, fmt.Errorf("the token has no claim %q as a text: all its users would be one", m.Subject)
	}
	for _, name := range m.Scopes {
		for _, t := range texts(claims[name]) {
			who.Scopes = append(who.Scopes, strings.Fields(t)...)
		}
	}
	for _, name := range m.Claims {
		if value := valueOf(claims[name]); value != "" {
			if who.Claims == nil {
				who.Claims = map[string]string{}
			}
			who.Claims[name] = value
		}
	}
	if m.Check == nil {
		return who, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err = m.Check(ctx, claims); err != nil && ctx.Err() != nil {
		err = away("Mapping.Check has not ended in time", err)
	}
	return who, err
}

// checkTimes refuses a token before its time and after it.
func (m *Mapping) checkTimes(claims map[string]any, now time.Time) error {
	switch expires := seconds(claims["exp"]); {
	case claims["exp"] == nil && m.endless:
	case expires.IsZero():
		return errors.New("the token does not say when it expires")
	case !now.Before(expires):
		return errors.New("the token has expired")
	}
	if claims["nbf"] != nil && now.Add(clockSkew).Before(seconds(claims["nbf"])) {
		return errors.New("the token is not valid yet")
	}
	return nil
}

// clockSkew is how far ahead an issuer's clock may be.
const clockSkew = 5 * time.Minute

func (m *Mapping) isFor(audiences []string) bool {
	return slices.ContainsFunc(audiences, func(got string) bool {
		return slices.ContainsFunc(m.Audiences, func(a string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(got, "/") })
	})
}

// accessToken refuses what providers sign besides access tokens, as far as it can be recognised, and tokens that are bound
// to something else than a key of DPoP.
func accessToken(claims map[string]any) error {
	kind := strings.ToLower(text(claims["typ"])) // Keycloak's
	bound := thumbprintOf(claims) != ""
	for name, taken := range map[string][]string{
		"token_use":  {"access", "access_token"},                                                  // Cognito's, Hydra's
		"token_type": {"bearer", "access_token", "urn:ietf:params:oauth:token-type:access_token"}, // of introspection
	} {
		use := claims[name]
		if use != nil && !slices.Contains(taken, strings.ToLower(text(use))) && !(bound && strings.EqualFold(text(use), "DPoP")) {
			return fmt.Errorf("it is no access token of a bearer: its %s is %v", name, use)
		}
	}
	if slices.Contains([]string{"id", "refresh", "offline", "logout"}, kind) {
		return fmt.Errorf("it is no access token but one of type %q", kind)
	}
	for _, name := range []string{"at_hash", "c_hash", "s_hash", "nonce", "events"} {
		if claims[name] != nil && !(name == "nonce" && kind == "bearer") { // older Keycloaks have it in access tokens
			return fmt.Errorf("it is no access token: those have no claim %q", name)
		}
	}
	if claims["cnf"] != nil && !bound {
		return errors.New("it is bound to a key otherwise than by DPoP, which is not checked here")
	}
	return nil
}

// thumbprintOf is that of the key to which a token is bound by DPoP and by nothing else (RFC 9449, section 6).
func thumbprintOf(claims map[string]any) string {
	if bound, ok := claims["cnf"].(map[string]any); ok && len(bound) == 1 {
		return text(bound["jkt"])
	}
	return ""
}

func text(claim any) string {
	s, _ := claim.(string)
	return s
}

// texts are the values of a claim that is one value or a list.
func texts(claim any) (all []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case bool, json.Number:
		return []string{fmt.Sprint(c)}
	case []any:
		for _, e := range c {
			if s := texts(e); len(s) == 1 {
				all = append(all, s[0])
			}
		}
	}
	return all
}

// valueOf is a claim as tools find it: no two look the same, but for a list of one and its element.
func valueOf(claim any) string {
	all := texts(claim)
	if len(all) == 0 || len(all) == 1 && !strings.HasPrefix(all[0], "[") {
		return strings.Join(all, "")
	}
	list, _ := json.Marshal(all) // of texts
	return string(list)
}

// seconds reads a time of a token; zero if it is none.
func seconds(claim any) time.Time {
	if n, ok := claim.(json.Number); ok {
		if f, err := n.Float64(); err == nil && f > 0 && f < 1<<40 {
			return time.Unix(int64(f), 0)
		}
	}
	return time.Time{}
}

// decodeClaims reads claims with numbers as they are written.
func decodeClaims(raw []byte) (map[string]any, error) {
	var claims map[string]any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&claims); err != nil || claims == nil {
		return nil, errors.New("the claims are no JSON object")
	}
	return claims, nil
}
