package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcpsaga/mcpsaga/server"
)

const (
	// keysAge is after what time keys are fetched again, so that those which an issuer withdraws are trusted no longer.
	keysAge = time.Hour
	// keysLate is how much sooner than an issuer shows a key it may seem to have signed by it: clocks differ, and caches hold keys.
	keysLate = 5 * time.Minute
	// maxKeys bounds the bytes of a set of keys.
	maxKeys = 1 << 20
	// fetchTimeout bounds a fetch, and how long others wait for it.
	fetchTimeout = 10 * time.Second
)

// keys are those of one issuer. A bad signature costs one verification and no fetch: only a token that names an unknown key
// has them fetched, and that seldom. Until then such a token is for later, if it was made so lately that its key may be new.
type keys struct {
	jwt        *JWT
	at         *discovery
	algorithms []jose.SignatureAlgorithm
	set        atomic.Pointer[keySet] // nil before the first fetch
	fetching   *gate                  // of one place
	next       time.Time              // no fetch before that; for who is in fetching, as failed is
	failed     error                  // why the last fetch has failed, if it has
}

type keySet struct {
	keys    []jose.JSONWebKey
	fetched time.Time
}

func newKeys(j *JWT) *keys {
	k := &keys{jwt: j, at: newDiscovery(j.Issuer, &j.Checking), fetching: newGate(1, fetchTimeout)}
	for _, a := range j.Algorithms {
		k.algorithms = append(k.algorithms, jose.SignatureAlgorithm(a))
	}
	return k
}

// verify returns what a token says once a key has fitted. issued is when the token says it was made; zero is unknown.
func (k *keys) verify(ctx context.Context, place *pass, token string, issued time.Time) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, k.algorithms)
	if err != nil {
		return nil, err
	}
	header, asked := jws.Signatures[0].Protected, k.jwt.Now()
	if err := k.checkType(header); err != nil {
		return nil, err
	}
	if set := k.set.Load(); set != nil && !asked.Before(set.fetched.Add(keysAge)) && k.fetching.try() {
		place.leave()    // the issuer may take long
		_ = k.fetch(ctx) // else the old ones will do
		k.fetching.leave()
		if err := place.enter(ctx); err != nil {
			return nil, err
		}
	}
	payload, known := verifyWith(k.set.Load(), jws, header)
	if payload != nil || known {
		return payload, orBad(payload)
	}
	place.leave() // the issuer may take long
	if err := k.refresh(ctx); err != nil {
		return nil, err
	}
	if err := place.enter(ctx); err != nil {
		return nil, err
	}
	set := k.set.Load()
	payload, known = verifyWith(set, jws, header)
	if payload == nil && !known && set.fetched.Before(asked) && (issued.IsZero() || issued.After(set.fetched.Add(-keysLate))) {
		return nil, fmt.Errorf("the token names a key that the issuer may have added since its keys were fetched: %w",
			server.TryAgain("credentials cannot be checked now: send the same request again", set.fetched.Add(k.jwt.FetchEvery).Sub(asked)))
	}
	return payload, orBad(payload)
}

func orBad(payload []byte) error {
	if payload == nil {
		return errors.New("no key of the issuer fits the signature")
	}
	return nil
}

// checkType takes tokens of no type or the plain one, unless access tokens alone are to be taken.
func (k *keys) checkType(header jose.Header) error {
	kind, _ := header.ExtraHeaders[jose.HeaderType].(string)
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	if kind == "at+jwt" || !k.jwt.OnlyAccessTokens && (kind == "" || kind == "jwt") {
		return nil
	}
	return fmt.Errorf("the token is of type %q", kind)
}

// verifyWith returns what is signed, or nil, and whether the key that the token names is known.
func verifyWith(set *keySet, jws *jose.JSONWebSignature, header jose.Header) (payload []byte, known bool) {
	if set == nil {
		return nil, false
	}
	for _, key := range set.keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		known = header.KeyID != ""
		if payload, err := jws.Verify(&key); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// refresh fetches the keys, unless that was done just now. It fails if that cannot be done: the issuer may have others.
func (k *keys) refresh(ctx context.Context) error {
	if err := k.fetching.enter(ctx); err != nil {
		return err
	}
	defer k.fetching.leave()
	return k.fetch(ctx)
}

func (k *keys) fetch(ctx context.Context) error {
	now := k.jwt.Now()
	if now.Before(k.next) {
		return k.failed
	}
	k.next = now.Add(k.jwt.FetchEvery)
	set, err := k.get(context.WithoutCancel(ctx)) // others wait for it as well
	if err != nil {
		if k.set.Load() == nil {
			k.next = now.Add(k.jwt.FetchEvery / 10)
		}
		k.failed = away("the authorization server cannot be asked for its keys", err)
		return k.failed
	}
	k.failed = nil
	k.set.Store(&keySet{set, now})
	return nil
}

func (k *keys) get(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	at, err := k.at.endpoint(ctx, k.jwt.KeysURL, "jwks_uri")
	if err != nil {
		return nil, err
	}
	raw, err := fetch(ctx, k.jwt.Client, at, maxKeys)
	if err != nil {
		return nil, err
	}
	var list struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("the issuer's keys: %w", err)
	}
	set := []jose.JSONWebKey{}
	for _, raw := range list.Keys {
		var key jose.JSONWebKey
		// Those of a kind that is not known are for others (RFC 7517, section 5), and shared secrets are no keys here.
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() && slices.Contains([]string{"", "sig"}, key.Use) {
			set = append(set, key)
		}
	}
	if len(set) == 0 {
		return nil, errors.New("the issuer has no keys that can verify a signature")
	}
	return set, nil
}

// fetch is fetchBody of what is at a URL.
func fetch(ctx context.Context, client *http.Client, url string, most int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return fetchBody(client, request, most)
}

// fetchBody returns the body of a response with the status 200, of at most so many bytes.
func fetchBody(client *http.Client, request *http.Request, most int64) ([]byte, error) {
	request.Header.Set("Accept", "application/json")
	resp, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{request.URL.Redacted(), resp.StatusCode}
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s: more than %d bytes", request.URL.Redacted(), most)
	}
	return raw, err
}

type statusError struct {
	url  string
	code int
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: status %d", e.url, e.code) }
