package auth

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

// APIKey is a machine's key, as it is kept.
type APIKey struct {
	// Hash is what [NewAPIKey] returned with the key: the key itself is nowhere but with its machine.
	Hash string
	// Caller is whom it stands for. It needs a Subject. An Issuer of none is "api-keys".
	Caller saga.Caller
	// Expires is from when on it is not taken any more; zero is never.
	Expires time.Time
}

// NewAPIKey makes a key of 256 random bits, which cannot be guessed, so that a plain hash protects it, and the hash. Passwords
// are no such keys.
func NewAPIKey() (key, hash string) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	key = "mk_" + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(sum[:])
}

// APIKeys is a [Method] for machines that have keys.
type APIKeys struct {
	header string
	keys   atomic.Pointer[[]APIKey] // whose hashes are as they are, not in hexadecimal
}

// NewAPIKeys returns a method that takes API keys from a header such as "X-Api-Key"; "" is for bearer tokens, where
// an unknown key is left to the methods behind.
func NewAPIKeys(header string, list ...APIKey) (*APIKeys, error) {
	k := &APIKeys{header: header}
	return k, k.Set(list...)
}

// Set replaces all keys.
func (k *APIKeys) Set(list ...APIKey) error {
	stored, users := slices.Clone(list), make(map[string]string, len(list))
	for i, key := range list {
		hash, err := hex.DecodeString(key.Hash)
		switch taken := users[string(hash)]; {
		case err != nil || len(hash) != sha256.Size:
			return fmt.Errorf("auth: the hash of the key of %q must have %d hexadecimal digits: take that of NewAPIKey", key.Caller.Subject, 2*sha256.Size)
		case bytes.Equal(hash, emptyHash[:]):
			return fmt.Errorf("auth: the hash of the key of %q is that of no text at all: the variable with the key was empty when it was made", key.Caller.Subject)
		case key.Caller.Subject == "":
			return errors.New("auth: an API key needs a Caller.Subject: who uses it")
		case taken != "":
			return fmt.Errorf("auth: %q and %q have the same key: it must stand for one caller", taken, key.Caller.Subject)
		}
		users[string(hash)], stored[i].Hash = key.Caller.Subject, string(hash)
		stored[i].Caller.Issuer = cmp.Or(key.Caller.Issuer, "api-keys")
	}
	k.keys.Store(&stored)
	return nil
}

// emptyHash is what sha256sum prints of nothing.
var emptyHash = sha256.Sum256(nil)

// Identify implements Method.
func (k *APIKeys) Identify(r *http.Request) (saga.Caller, error) {
	key, proving := credentials(r)
	unknown := ErrNone
	if proving {
		key = ""
	}
	if k.header != "" {
		values := r.Header.Values(k.header)
		if len(values) == 0 {
			return saga.Caller{}, ErrNone
		}
		key, unknown = values[0], errors.New("an unknown API key")
		if len(values) > 1 {
			return saga.Caller{}, errors.New("several API keys")
		}
	}
	if key == "" {
		return saga.Caller{}, unknown
	}
	sum := sha256.Sum256([]byte(key))
	var found *APIKey
	stored := *k.keys.Load()
	for i := range stored { // all of them, whichever fits
		if s := &stored[i]; subtle.ConstantTimeCompare([]byte(s.Hash), sum[:]) == 1 {
			found = s
		}
	}
	switch {
	case found == nil:
		return saga.Caller{}, unknown
	case !found.Expires.IsZero() && !time.Now().Before(found.Expires):
		return saga.Caller{}, fmt.Errorf("the API key of %q has expired", found.Caller.Subject)
	}
	return found.Caller, nil
}
