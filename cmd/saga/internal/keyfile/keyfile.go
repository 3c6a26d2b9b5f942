// Package keyfile finds, creates and watches the file that holds a server's keys.
package keyfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Default is the keyset file of this user.
func Default() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for a keyset, name one with --keyset: %w", err)
	}
	return filepath.Join(dir, "saga", "keyset.json"), nil
}

// LoadOrCreate loads the keyset at path or, if there is none, creates one that only this
// user can read, and reports that. Of several processes that do so at once, one creates the
// file and the others load it.
func LoadOrCreate(path string) (keys *codec.Keyset, created bool, err error) {
	keys, err = codec.LoadKeyset(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, err
	}
	keys, err = codec.CreateKeysetFile(path)
	if errors.Is(err, fs.ErrExist) {
		keys, err = codec.LoadKeyset(path)
		return keys, false, err
	}
	return keys, err == nil, err
}

const (
	// interval is how often the file is loaded.
	interval = 5 * time.Second
	// reminder is how often the log says that the file still cannot be loaded.
	reminder = time.Minute
)

// Watcher loads a keyset file again and again, and passes on what has changed. A file that
// cannot be loaded is tried again at every look: the change may be that a stolen key no longer
// opens tokens.
type Watcher struct {
	// Path is the file.
	Path string
	// Now makes it pass on the keyset at once, changed or not.
	Now <-chan os.Signal
	// Set gets each keyset, and Failed is called when the file can no longer be loaded.
	Set    func(*codec.Keyset)
	Failed func()
	// Interval is how often the file is loaded; zero is every five seconds.
	Interval time.Duration
	// Log gets what happens.
	Log *slog.Logger
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	if info, err := os.Stat(w.Path); err == nil && !info.Mode().IsRegular() {
		// A pipe can be read once, and reading it again may block for ever.
		w.Log.InfoContext(ctx, "the keyset is not a regular file, so changes of it are not noticed", "path", w.Path)
		return
	}
	// A file descriptor put aside for loading: clients can use up all others, and must not keep a key from
	// being disabled.
	spare, _ := os.Open(os.DevNull)
	defer func() { spare.Close() }()
	tick := time.NewTicker(cmp.Or(w.Interval, interval))
	defer tick.Stop()
	var last *codec.Keyset      // what was passed on
	var failing error           // that was logged last, since the file cannot be loaded
	var since, logged time.Time // when that began, and when the error was logged
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-w.Now:
			asked = true
		case <-tick.C:
		}
		spare.Close()
		keys, err := codec.LoadKeyset(w.Path)
		spare, _ = os.Open(os.DevNull) // if there is none left, perhaps the next time
		now := time.Now()
		switch {
		case err != nil:
			if failing == nil {
				since = now
				w.Failed()
			}
			if failing == nil || asked || failing.Error() != err.Error() || now.Sub(logged) >= reminder {
				failing, logged = err, now
				w.Log.ErrorContext(ctx, "cannot reload the keyset, keeping the keys loaded before and trying again", "error", err, "since", since)
			}
			continue
		case failing != nil:
			w.Log.InfoContext(ctx, "keyset loaded again", "failed_for", now.Sub(since).Round(time.Second), "keyset", keys)
		case asked, last != nil && !slices.Equal(keys.Keys(), last.Keys()): // ids are random, so keys with the same ids are the same keys
			w.Log.InfoContext(ctx, "keyset reloaded", "keyset", keys)
		case last != nil:
			continue
		} // what the server began with is no news
		w.Set(keys)
		last, failing = keys, nil
	}
}
