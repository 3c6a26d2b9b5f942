package releasenotes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
)

// checkFile decides whether notes may be written to a file of that name. The
// name comes from the client: it must not reach what tools execute or read as
// configuration.
func checkFile(name string) error {
	clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return saga.Failf("The file %q is not inside the repository.", name)
	}
	for part := range strings.SplitSeq(clean, "/") {
		if strings.HasPrefix(part, ".") {
			return saga.Failf("The file %q is in a hidden place.", name)
		}
	}
	switch strings.ToLower(path.Ext(clean)) {
	case ".md", ".txt":
		return nil
	}
	return saga.Failf("The file %q must end in .md or .txt.", name)
}

// existing says what is at a file's place: nothing, the very text, or another.
type existing int

const (
	nothing existing = iota
	sameText
	otherText
)

func (r *repository) look(name, text string) (existing, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nothing, err
	}
	defer root.Close()
	old, err := root.ReadFile(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing, nil
	case err != nil:
		return nothing, fmt.Errorf("reading the old notes: %w", err)
	case bytes.Equal(old, []byte(text)):
		return sameText, nil
	}
	return otherText, nil
}

// write puts the text into the file, which appears whole or not at all. The
// file system itself keeps the path inside the repository (os.Root), also when
// a link is exchanged meanwhile.
func (r *repository) write(name, text, unique string) (err error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name = filepath.FromSlash(name)
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	temporary := name + "." + unique + ".tmp"
	if err := root.WriteFile(temporary, []byte(text), 0o666); err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	if err := root.Rename(temporary, name); err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return nil
}
