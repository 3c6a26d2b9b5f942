package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/saga"
)

// authorization is who may call a server, as flags have said it.
type authorization struct {
	program *program
	guard   *auth.Guard
	keys    *auth.APIKeys // nil if there are none
	path    string        // of the file with them
	raw     []byte        // what it had
}

// apiKey is an entry of the file of --auth-api-keys.
type apiKey struct {
	Hash    string
	Subject string
	Scopes  []string
	Expires time.Time
}

// load loads the API keys, and reports whether they are others than before.
func (a *authorization) load() (changed bool, err error) {
	raw, err := os.ReadFile(a.path)
	if err != nil || a.raw != nil && bytes.Equal(raw, a.raw) {
		return false, err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	var entries []apiKey
	if err := d.Decode(&entries); err != nil && !errors.Is(err, io.EOF) { // an empty file has no keys
		return false, fmt.Errorf("%s is no list of keys, each with a hash, a subject, perhaps scopes and a date when it expires: %w", a.path, err)
	} else if err == nil && !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		return false, fmt.Errorf("%s has more than one document", a.path)
	}
	list := make([]auth.APIKey, 0, len(entries))
	for _, e := range entries {
		list = append(list, auth.APIKey{Hash: e.Hash, Expires: e.Expires, Caller: saga.Caller{Subject: e.Subject, Scopes: e.Scopes}})
	}
	if err := a.keys.Set(list...); err != nil {
		return false, fmt.Errorf("%s: %w", a.path, err)
	}
	a.raw = raw
	return true, nil
}

// begin says what is in force, asks the issuer for what tokens are checked by, and loads the API keys again when they change,
// until ctx ends.
func (a *authorization) begin(ctx context.Context) {
	if a == nil {
		return
	}
	log := a.program.server.Logger
	go func() {
		if err := a.guard.Probe(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "the authorization server cannot be asked; until it can, requests with tokens get the status 503", "error", err)
		}
	}()
	if a.keys == nil {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangup)
		tick := time.NewTicker(cmp.Or(a.program.lookAtKeys, 5*time.Second))
		defer tick.Stop()
		failing, logged := "", time.Time{} // as it was logged last
		for {
			asked := false
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				asked = true
			case <-tick.C:
			}
			changed, err := a.load()
			switch {
			case err != nil && (asked || err.Error() != failing || time.Since(logged) >= time.Minute):
				failing, logged = err.Error(), time.Now()
				log.ErrorContext(ctx, "cannot reload the API keys, keeping those loaded before and trying again", "error", err)
			case err == nil && (asked || changed || failing != ""):
				failing = ""
				log.InfoContext(ctx, "API keys reloaded", "path", a.path)
			}
		}
	}()
}
