package keyfile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

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
	// File is the file.
	File codec.KeysetFile
	// Now makes it pass on the keyset at once, changed or not.
	Now <-chan os.Signal
	// Set gets each keyset, and Failed is called when the file can no longer be loaded.
	Set    func(*codec.Keyset)
	Failed func()
	// Interval is how often the file is loaded; zero is every five seconds.
	Interval time.Duration
	// Log gets what happens.
	Log *slog.Logger

	load    func(codec.KeysetFile) (*codec.Keyset, error) // nil is load
	loading chan loaded                                   // of a load that has not ended
}

// loaded is what came of a load.
type loaded struct {
	keys *codec.Keyset
	err  error
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	if info, err := os.Stat(w.File.Path); err == nil && !info.Mode().IsRegular() {
		// A pipe can be read once, and reading it again may block for ever.
		w.Log.InfoContext(ctx, "the keyset is not a regular file, so changes of it are not noticed", "path", w.File.Path)
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
		keys, err := w.look(ctx)
		spare, _ = os.Open(os.DevNull) // if there is none left, perhaps the next time
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return
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

// look loads the keyset, and fails if that takes longer than the interval: a file on a mount that is gone can hang
// for ever. The load that hangs goes on, and is what the next look waits for, so that there is never more than one.
func (w *Watcher) look(ctx context.Context) (*codec.Keyset, error) {
	if w.loading == nil {
		done, file, do := make(chan loaded, 1), w.File, w.load
		if do == nil {
			do = load
		}
		w.loading = done
		go func() {
			keys, err := do(file)
			done <- loaded{keys, err}
		}()
	}
	patience := time.NewTimer(cmp.Or(w.Interval, interval))
	defer patience.Stop()
	select {
	case got := <-w.loading:
		w.loading = nil
		return got.keys, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, fmt.Errorf("reading the keyset %s hangs: see whether what it is on, and its KMS, can still be reached", w.File.Path)
	}
}

// load loads a keyset that was a regular file when the server began. What stands in its place must be one too: to
// open a pipe waits until something writes to it.
func load(file codec.KeysetFile) (*codec.Keyset, error) {
	info, err := os.Stat(file.Path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() && !info.IsDir(): // of a directory Load says so
		return nil, fmt.Errorf("the keyset %s is no longer a regular file", file.Path)
	}
	return file.Load()
}
