package releasenotes

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
)

// cleanFile decides whether notes may be written to a file of that name, and returns the name that is
// used from then on, relative to the repository. The name comes from the client: it must not reach what
// programs execute or read as configuration.
func cleanFile(name string) (string, error) {
	name = cmp.Or(name, "RELEASE_NOTES.md")
	slashed := strings.ReplaceAll(name, `\`, "/")
	clean := path.Clean(slashed)
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", saga.Failf("The file %q is not inside the repository.", name)
	}
	if strings.HasSuffix(slashed, "/") {
		return "", saga.Failf("%q is the name of a directory, not of a file.", name)
	}
	for part := range strings.SplitSeq(clean, "/") {
		if strings.HasPrefix(part, ".") {
			return "", saga.Failf("The file %q is in a hidden place.", name)
		}
	}
	switch strings.ToLower(path.Ext(clean)) {
	case ".md", ".txt":
		return clean, nil
	}
	return "", saga.Failf("The file %q must end in .md or .txt.", name)
}

// maxFile is the size in bytes of the largest file that is read and replaced.
const maxFile = 8 << 20

// digest stands for a text. That of no file is empty.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// look returns the digest of the file's text, empty if there is none.
func look(root *os.Root, name string) (string, error) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the old notes: %w", err)
	case !info.Mode().IsRegular():
		return "", saga.Failf("There is something at %q that is not a file.", filepath.ToSlash(name))
	case info.Size() > maxFile:
		return "", saga.Failf("The file %q is too large to be release notes (%d bytes); nothing was written.", filepath.ToSlash(name), info.Size())
	}
	text, err := root.ReadFile(name)
	return digest(text), err
}

// write puts the text into a file below dir, which appears whole or not at all. If another text is there
// than one with the digest replaceable, it leaves that as it is and returns its digest. os.Root keeps the
// path inside dir, also when a link is exchanged meanwhile.
func write(dir, name, text, replaceable string) (other string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name = filepath.FromSlash(name)
	found, err := look(root, name)
	if err != nil || found == digest([]byte(text)) {
		return "", err
	}
	if found != "" && found != replaceable {
		return found, nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return "", err
	}
	temporary := name + "." + rand.Text() + ".tmp"
	err = root.WriteFile(temporary, []byte(text), 0o666)
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary)
	}
	return "", err
}
