package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
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

// load loads the API keys if the file is another than before, and returns what it has.
func (a *authorization) load() (raw []byte, err error) {
	raw, err = os.ReadFile(a.path)
	if err != nil || a.raw != nil && bytes.Equal(raw, a.raw) {
		return raw, err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	var entries []apiKey
	switch err := d.Decode(&entries); {
	case err == nil && entries == nil, errors.Is(err, io.EOF): // as it is for a moment while it is written, or for want of room
		return nil, fmt.Errorf("%s is empty: for no keys write []", a.path)
	case err != nil:
		return nil, fmt.Errorf("%s is no list of keys, each with a hash, a subject, perhaps scopes and a date when it expires: %w", a.path, err)
	case !errors.Is(d.Decode(new(yaml.Node)), io.EOF):
		return nil, fmt.Errorf("%s has more than one document", a.path)
	}
	list := make([]auth.APIKey, 0, len(entries))
	for _, e := range entries {
		list = append(list, auth.APIKey{Hash: e.Hash, Expires: e.Expires, Caller: saga.Caller{Subject: e.Subject, Scopes: e.Scopes}})
	}
	if err := a.keys.Set(list...); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	a.raw = raw
	return raw, nil
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
	watcher := keyfile.Watcher[[]byte]{
		What: "file of API keys", Path: a.path, Load: a.load, Same: bytes.Equal, Shown: func([]byte) slog.Attr { return slog.String("path", a.path) },
		Last: a.raw, Now: hangup, Set: func([]byte) {}, Failed: func() {}, Interval: a.program.lookAtKeys, Log: log,
	}
	go func() {
		defer signal.Stop(hangup)
		watcher.Run(ctx)
	}()
}
