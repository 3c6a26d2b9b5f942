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

// LoadOrCreate loads the keyset at path, and creates one there, readable by this
// user only, if there is none. Of several processes that try at once one creates
// it and the others load it. created reports what happened.
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
	// interval is how often the file is looked at.
	interval = 5 * time.Second
	// reminder is how often the log says that the file still cannot be loaded.
	reminder = time.Minute
)

// Watcher loads a keyset file again whenever it has changed. Until a file that has
// changed is loaded, it tries again at every look: what is in it may be that a
// stolen key opens no more.
type Watcher struct {
	// Path is the file.
	Path string
	// Now makes it load the file at once, changed or not.
	Now <-chan os.Signal
	// Set gets each keyset, and Failed is told of each that could not be loaded.
	Set    func(*codec.Keyset)
	Failed func()
	// Interval is how often the file is looked at; zero is every five seconds.
	Interval time.Duration
	// Log gets what happens.
	Log *slog.Logger

	seen    version // of the file that was loaded last; zero at first
	failing failure
	// spare is a file descriptor put aside for loading: clients can use up all others,
	// and must not keep a key from being disabled.
	spare *os.File
}

type failure struct {
	since, told time.Time // zero if there is none
	text        string
	attempts    int
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	if info, err := os.Stat(w.Path); err == nil && !info.Mode().IsRegular() {
		// A pipe can be read once, and reading it again may block for ever.
		w.Log.InfoContext(ctx, "the keyset is not a regular file, so changes of it are not noticed", "path", w.Path)
		return
	}
	w.spare, _ = os.Open(os.DevNull)
	defer func() { w.spare.Close() }()
	tick := time.NewTicker(cmp.Or(w.Interval, interval))
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-w.Now:
			asked = true
		case <-tick.C:
		}
		w.look(ctx, asked)
	}
}

// look loads the file if it has changed since it was loaded, if the last attempt
// failed, or if somebody asked for it.
func (w *Watcher) look(ctx context.Context, asked bool) {
	// The version is taken first: a change while loading is seen the next time. It is
	// kept only once the file is loaded: what kept it from being loaded can end without
	// a change of the file.
	current, err := versionOf(w.Path)
	if err == nil && current == w.seen && w.failing.since.IsZero() && !asked {
		return
	}
	w.spare.Close()
	keys, err := codec.LoadKeyset(w.Path)
	w.spare, _ = os.Open(os.DevNull) // if there is none left, perhaps the next time
	if err != nil {
		w.fail(ctx, err, asked)
		return
	}
	w.Set(keys)
	switch first := w.seen == (version{}); {
	case !w.failing.since.IsZero():
		w.Log.InfoContext(ctx, "keyset loaded again", "failed_for", time.Since(w.failing.since).Round(time.Second), "keyset", keys)
	case asked || !first: // what the server began with is no news
		w.Log.InfoContext(ctx, "keyset reloaded", "keyset", keys)
	}
	w.seen, w.failing = current, failure{}
}

// fail reports a file that could not be loaded: the first time, when the cause
// changes, when somebody asked, and now and then while it lasts.
func (w *Watcher) fail(ctx context.Context, err error, asked bool) {
	now, f := time.Now(), &w.failing
	if f.since.IsZero() {
		f.since = now
		w.Failed()
	}
	f.attempts++
	if asked || f.text != err.Error() || now.Sub(f.told) >= reminder {
		f.told, f.text = now, err.Error()
		w.Log.ErrorContext(ctx, "cannot reload the keyset, going on with the keys loaded before and trying again",
			"error", err, "since", f.since, "attempts", f.attempts)
	}
}
