package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
)

// kept is a login, as it is written to its file. Its tokens are for one server, and it is renewed at one issuer.
type kept struct {
	Server    string   `json:"server"`
	Resource  string   `json:"resource"` // what the tokens are for: the server, by its own name
	Issuer    string   `json:"issuer"`
	TokenURL  string   `json:"tokenUrl"`
	RevokeURL string   `json:"revokeUrl,omitempty"`
	Client    client   `json:"client"`
	Scopes    []string `json:"scopes,omitempty"`
	Access    string   `json:"access"`
	Refresh   string   `json:"refresh,omitempty"`
}

// token is the access token; "" if there is none.
func (k *kept) token() string {
	if k == nil {
		return ""
	}
	return k.Access
}

// place is the file of a login.
type place string

// placeOf is where the login for a server is. The name of the file does not say for which.
func placeOf(dir, server string) place {
	sum := sha256.Sum256([]byte(server))
	return place(filepath.Join(dir, hex.EncodeToString(sum[:16])+".json"))
}

func (p place) empty() bool {
	_, err := os.Stat(string(p))
	return errors.Is(err, fs.ErrNotExist)
}

// load returns what is kept; nil is nothing. It refuses a file that other users can read or write.
func (p place) load() (*kept, error) {
	info, err := os.Stat(string(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s has tokens, and is open to other users (mode %04o): run chmod 600 %[1]s", p, info.Mode().Perm())
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(string(p))
	}
	k := new(kept)
	if err == nil && (json.Unmarshal(data, k) != nil || k.Access == "") { // the error might quote the file
		err = fmt.Errorf("%s is not a login: remove it, and sign in again", p)
	}
	if err != nil {
		return nil, fmt.Errorf("the login that is kept for the server: %w", err)
	}
	return k, nil
}

// save replaces what is kept, in one step.
func (p place) save(k *kept) error {
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return state.Replace(string(p), data)
}

func (p place) remove() error { return os.Remove(string(p)) }

// lock keeps other commands, and other requests of this one, from the file until unlock. It waits for them as long as ctx
// lasts: a user may be signing in.
func (p place) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(string(p)), 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(string(p)+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("waiting for another command that signs in: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}
