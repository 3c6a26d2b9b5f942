// Package state keeps calls that were interrupted, so that they can be continued later.
package state

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/client"
)

// maxFile limits the size of a saved call in bytes.
const maxFile = 64 << 20

// Call is an interrupted call: which server it was made to, and where it stands.
// It holds what the user answered, but no credentials.
type Call struct {
	// URL is the server's address, or Stdio the command that runs it in the directory Dir; empty is
	// where the call is taken up again.
	URL   string `json:"url,omitempty"`
	Stdio string `json:"stdio,omitempty"`
	Dir   string `json:"dir,omitempty"`
	// Position is where the call stands.
	Position client.Position `json:"position"`
	// Undo: the call has ended, and the position is good only to have undone what is left of it.
	Undo bool `json:"undo,omitempty"`
}

// Dir is where interrupted calls of this user are kept: below XDG_STATE_HOME, or
// the platform's place for such things.
func Dir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "saga", "calls"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no place to save the call, name one with --save: %w", err)
	}
	dir := filepath.Join(home, ".local", "state")
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		dir, err = os.UserConfigDir()
	}
	return filepath.Join(dir, "saga", "calls"), err
}

// NewPath is a fresh place for an interrupted call.
func NewPath(now time.Time) (string, error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, now.Format("20060102-150405-")+rand.Text()[:6]+extension), nil
}

// NewName has the form of the names that [NewPath] gives.
var NewName = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[A-Z2-7]{6}(\.json)?$`)

// Save writes the call to path, readable by this user only. A file that is there
// is replaced in one step.
func (c *Call) Save(path string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return Replace(path, data)
}

// Replace writes a file in one step, readable by this user only.
func Replace(path string, data []byte) error {
	f, err := beside(path)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// beside makes the file that is then moved to a path.
func beside(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(filepath.Dir(path), ".saga-*"+extension) // with the mode 0600
}

// CanSave fails if nothing can be saved at a path.
func CanSave(path string) error {
	f, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// ErrMissing begins the error for a path where no call is saved.
var ErrMissing = errors.New("there is no saved call")

// Load reads what Save wrote. It refuses a file of another user, or that others may
// write: a saved call can name a command to run.
func Load(path string) (*Call, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w %s", ErrMissing, Given(path))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if isOthers(info) {
		return nil, fmt.Errorf("%s belongs to another user: copy it, if you trust what is in it, and name the copy", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be changed by other users (mode %04o): make sure that it is yours, then run chmod 600 %[1]s", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	c := new(Call)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s is not a saved call: %w", path, err)
	}
	if c.Position.Subject() == "" {
		return nil, fmt.Errorf("%s is not a saved call: it names no tool", path)
	}
	return c, nil
}

// Keep is how long a saved call is kept in [Dir] before [List] removes it. Tokens
// live for minutes or days, not for longer.
const Keep = 30 * 24 * time.Hour

const extension = ".json"

// Saved is a call in [Dir].
type Saved struct {
	Name string    // what the user calls it by: the file's name without its extension
	Path string    // the file
	At   time.Time // when it was saved
	Call *Call     // what it holds; nil if Err says why it cannot be read
	Err  error
}

// List returns the calls in [Dir], the oldest first. It removes what is older than [Keep], and what saves that were
// broken off have left, or leaves that to the next time.
func List(now time.Time) ([]Saved, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	var calls []Saved
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), extension)
		info, err := entry.Info()
		if !ok || err != nil || !info.Mode().IsRegular() {
			continue // it is none, or has just been removed
		}
		s := Saved{Name: name, Path: filepath.Join(dir, entry.Name()), At: info.ModTime()}
		switch {
		case now.Sub(s.At) > Keep:
			_ = os.Remove(s.Path)
		case !strings.HasPrefix(name, "."): // of a save that is under way
			s.Call, s.Err = Load(s.Path)
			calls = append(calls, s)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // nothing was saved yet
	}
	slices.SortFunc(calls, func(a, b Saved) int { return a.At.Compare(b.At) })
	return calls, err
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
