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

// cleanFile decides whether notes may be written to a file of that name, and returns
// the name to use from then on, relative to the repository. The name comes from the
// client: it must not reach what tools execute or read as configuration.
func cleanFile(name string) (string, error) {
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

// existing says what is at a file's place: nothing, the very text, or another.
type existing int

const (
	nothing existing = iota
	sameText
	otherText
)

func look(root *os.Root, name, text string) (existing, error) {
	old, err := root.ReadFile(name)
	switch {
	case err == nil && bytes.Equal(old, []byte(text)):
		return sameText, nil
	case err == nil:
		return otherText, nil
	}
	if info, statErr := root.Lstat(name); statErr == nil && !info.Mode().IsRegular() {
		return nothing, saga.Failf("There is something at %q that is not a file.", filepath.ToSlash(name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nothing, nil
	}
	return nothing, fmt.Errorf("reading the old notes: %w", err)
}

// write puts the text into the file, which appears whole or not at all, and returns
// what it found in its place. Another text it leaves as it is, unless it is to
// replace it. The file system itself keeps the path inside the repository
// (os.Root), also when a link is exchanged meanwhile.
func (r *repository) write(name, text, unique string, replace bool) (existing, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nothing, err
	}
	defer root.Close()
	name = filepath.FromSlash(name)
	temporary := name + "." + unique + ".tmp"
	for range 10 {
		found, err := look(root, name, text)
		switch {
		case err != nil:
			return found, err
		case found == sameText:
			root.Remove(temporary) // a turn that was cut off may have left it
			return found, nil
		case found == otherText && !replace:
			return found, nil
		}
		if dir := filepath.Dir(name); dir != "." {
			if err := root.MkdirAll(dir, 0o777); err != nil {
				return found, err
			}
		}
		if err := root.WriteFile(temporary, []byte(text), 0o666); err != nil {
			return found, errors.Join(err, root.Remove(temporary))
		}
		if found == otherText {
			if err := root.Rename(temporary, name); err != nil {
				return found, errors.Join(err, root.Remove(temporary))
			}
			return found, nil
		}
		err = place(root, temporary, name, text)
		removed := root.Remove(temporary)
		if errors.Is(err, fs.ErrExist) && removed == nil {
			continue // somebody was faster: look again
		}
		return found, errors.Join(err, removed)
	}
	return nothing, saga.Failf("The file %q comes and goes; somebody else is writing it.", filepath.ToSlash(name))
}

// place gives the temporary file its name, unless something has that name: a link,
// unlike a renamed file, takes no place that is taken. A file system without links
// gets another file.
func place(root *os.Root, temporary, name, text string) error {
	err := root.Link(temporary, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	return nil
}
