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

// Watcher loads a file with keys again and again, and passes on what has changed. A file that
// cannot be loaded is tried again at every look: the change may be that a stolen key no longer
// opens tokens.
type Watcher[T any] struct {
	// What is what the log calls that which is in the file, and Path is the file.
	What, Path string
	// Load loads the file, Same reports whether two loads have brought the same, and Shown is what the log has of one.
	Load  func() (T, error)
	Same  func(a, b T) bool
	Shown func(T) slog.Attr
	// Last is what is in use when it begins.
	Last T
	// Now makes it pass on what is in the file at once, changed or not.
	Now <-chan os.Signal
	// Set gets what is new, and Failed is called when the file can no longer be loaded.
	Set    func(T)
	Failed func()
	// Interval is how often the file is loaded; zero is every five seconds.
	Interval time.Duration
	// Log gets what happens.
	Log *slog.Logger

	loading chan loaded[T] // of a load that has not ended
}

// OfKeyset returns a Watcher of a keyset, which began as it is in use.
func OfKeyset(file codec.KeysetFile, inUse *codec.Keyset) *Watcher[*codec.Keyset] {
	return &Watcher[*codec.Keyset]{
		What: "keyset", Path: file.Path, Load: file.Load, Last: inUse,
		Same:  func(a, b *codec.Keyset) bool { return slices.Equal(a.Keys(), b.Keys()) }, // ids are random
		Shown: func(k *codec.Keyset) slog.Attr { return slog.Any("keyset", k) },
	}
}

// loaded is what came of a load.
type loaded[T any] struct {
	keys T
	err  error
}

// Run watches until ctx ends.
func (w *Watcher[T]) Run(ctx context.Context) {
	if info, err := os.Stat(w.Path); err == nil && !info.Mode().IsRegular() {
		// A pipe can be read once, and reading it again may block for ever.
		w.Log.InfoContext(ctx, "the "+w.What+" is not a regular file, so changes of it are not noticed", "path", w.Path)
		return
	}
	// A file descriptor put aside for loading: clients can use up all others, and must not keep a key from
	// being disabled.
	spare, _ := os.Open(os.DevNull)
	defer func() { spare.Close() }()
	tick := time.NewTicker(cmp.Or(w.Interval, interval))
	defer tick.Stop()
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
				w.Log.ErrorContext(ctx, "cannot reload the "+w.What+", keeping the keys loaded before and trying again", "error", err, "since", since)
			}
			continue
		case failing != nil:
			w.Log.InfoContext(ctx, w.What+" loaded again", "failed_for", now.Sub(since).Round(time.Second), w.Shown(keys))
		case asked, !w.Same(keys, w.Last):
			w.Log.InfoContext(ctx, w.What+" reloaded", w.Shown(keys))
		default:
			continue
		}
		w.Set(keys)
		w.Last, failing = keys, nil
	}
}

// look loads the file, and fails if that takes longer than the interval: a file on a mount that is gone can hang
// for ever. The load that hangs continues, and is what the next look waits for, so that there is never more than one.
func (w *Watcher[T]) look(ctx context.Context) (keys T, err error) {
	if w.loading == nil {
		done := make(chan loaded[T], 1)
		w.loading = done
		go func() {
			keys, err := w.load()
			done <- loaded[T]{keys, err}
		}()
	}
	patience := time.NewTimer(cmp.Or(w.Interval, interval))
	defer patience.Stop()
	select {
	case got := <-w.loading:
		w.loading = nil
		return got.keys, got.err
	case <-ctx.Done():
		return keys, ctx.Err()
	case <-patience.C:
		return keys, fmt.Errorf("reading the %s %s hangs: see whether what it is on, and its KMS, can still be reached", w.What, w.Path)
	}
}

// load loads what was a regular file when the server began. What stands in its place must be one too: to
// open a pipe waits until something writes to it.
func (w *Watcher[T]) load() (keys T, err error) {
	info, err := os.Stat(w.Path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() { // of a directory Load says so
		err = fmt.Errorf("the %s %s is no longer a regular file", w.What, w.Path)
	}
	if err != nil {
		return keys, err
	}
	return w.Load()
}
