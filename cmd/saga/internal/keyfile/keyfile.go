// Package keyfile finds, creates and watches the file that holds a server's keys.
package keyfile

import (
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

// DefaultInterval is how often [Watch] looks at the file.
const DefaultInterval = 5 * time.Second

// Watch calls set with the keyset at path whenever the file has changed, or now
// arrives, until ctx ends. It looks every interval. A file that cannot be used is
// logged and changes nothing: the server goes on with the keys it has.
func Watch(ctx context.Context, path string, interval time.Duration, now <-chan os.Signal, set func(*codec.Keyset), log *slog.Logger) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	// The file was loaded some time before this, and may have changed since: so
	// the first look loads it whatever its stamp.
	var seen version
	for first := true; ; first = false {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-now:
			asked = true
		case <-tick.C:
		}
		// The stamp is taken first: a change while loading is seen the next time.
		current := stamp(path)
		if current == seen && !asked {
			continue
		}
		seen = current
		keys, err := codec.LoadKeyset(path)
		if err != nil {
			log.ErrorContext(ctx, "cannot reload the keyset, going on with the keys loaded before", "error", err)
			continue
		}
		set(keys)
		if !first || asked {
			log.InfoContext(ctx, "keyset reloaded", "keyset", keys)
		}
	}
}

// version tells two versions of a file apart.
type version struct {
	modified time.Time
	size     int64
	missing  bool
}

func stamp(path string) version {
	info, err := os.Stat(path)
	if err != nil {
		return version{missing: true}
	}
	return version{modified: info.ModTime(), size: info.Size()}
}
