// Package state keeps calls that were interrupted, so that they can go on later.
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
	"runtime"
	"time"

	"github.com/mcpsaga/mcpsaga/client"
)

// temporaryPrefix begins the names of files that are being written.
const temporaryPrefix = ".saga-"

// maxFile limits the size of a saved call in bytes.
const maxFile = 64 << 20

// Call is an interrupted call: which server it was made to, and where it stands.
// It holds what the user answered, but no credentials.
type Call struct {
	// URL is the server's address, or Stdio the command that runs it.
	URL   string `json:"url,omitempty"`
	Stdio string `json:"stdio,omitempty"`
	// Position is where the call stands.
	Position client.Position `json:"position"`
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
	switch runtime.GOOS {
	case "darwin", "windows":
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", err
		}
		return filepath.Join(dir, "saga", "calls"), nil
	}
	return filepath.Join(home, ".local", "state", "saga", "calls"), nil
}

// NewPath is a fresh place for an interrupted call.
func NewPath(now time.Time) (string, error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, now.Format("20060102-150405-")+rand.Text()[:6]+extension), nil
}

// Save writes the call to path, readable by this user only. A file that is there
// is replaced in one step.
func (c *Call) Save(path string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// CreateTemp gives the file the mode 0600.
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPrefix+"*.tmp")
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

// MissingError says that there is no saved call at Path.
type MissingError struct{ Path string }

// Error implements error.
func (e *MissingError) Error() string { return "there is no saved call " + Given(e.Path) }

// Unwrap returns fs.ErrNotExist.
func (e *MissingError) Unwrap() error { return fs.ErrNotExist }

// Load reads what Save wrote. It refuses a file that others may write: a saved
// call can name a command to run.
func Load(path string) (*Call, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &MissingError{path}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
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
