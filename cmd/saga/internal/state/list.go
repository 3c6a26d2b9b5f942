package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Keep is how long a saved call is kept in [Dir] before [Clean] removes it. Tokens
// live for minutes or days, not for longer.
const Keep = 30 * 24 * time.Hour

// maxOrphan is how old the temporary file of a save that was broken off must be to be
// removed: one that is under way is younger.
const maxOrphan = time.Hour

const extension = ".json"

// Saved is a call in [Dir].
type Saved struct {
	// Name is what the user calls it by: the file's name without its extension.
	Name string
	// Path is the file.
	Path string
	// At is when it was saved.
	At time.Time
	// Call is what it holds; nil if Err says why it cannot be read.
	Call *Call
	Err  error
}

// List returns the calls in [Dir], the oldest first.
func List() ([]Saved, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var calls []Saved
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), extension)
		if !ok || !entry.Type().IsRegular() || strings.HasPrefix(name, ".") {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue // it has just been removed
		}
		s := Saved{Name: name, Path: filepath.Join(dir, entry.Name()), At: info.ModTime()}
		s.Call, s.Err = Load(s.Path)
		calls = append(calls, s)
	}
	slices.SortFunc(calls, func(a, b Saved) int { return a.At.Compare(b.At) })
	return calls, nil
}

// Path returns the file that the user means: a path, or the name of a call in [Dir].
func Path(given string) string {
	if _, err := os.Lstat(given); err == nil || strings.ContainsAny(given, `/\`) {
		return given
	}
	if dir, err := Dir(); err == nil {
		inDir := filepath.Join(dir, strings.TrimSuffix(given, extension)+extension)
		if _, err := os.Lstat(inDir); err == nil {
			return inDir
		}
	}
	return given
}

// Given is what the user may give for a file: its name if it is in [Dir], else the path.
func Given(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), extension)
	if dir, err := Dir(); err == nil && filepath.Dir(path) == dir && Path(name) == path {
		return name
	}
	return path
}

// Clean removes from [Dir] what is older than [Keep], and what saves that were broken
// off have left. It fails in silence: the next time will do.
func Clean(now time.Time) {
	dir, err := Dir()
	if err != nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		oldest := Keep
		switch {
		case strings.HasPrefix(entry.Name(), temporaryPrefix):
			oldest = maxOrphan
		case filepath.Ext(entry.Name()) != extension:
			continue
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > oldest {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}
