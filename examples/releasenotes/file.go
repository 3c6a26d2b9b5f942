package releasenotes

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

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

// maxFile is the size in bytes of the largest file that is looked at and replaced.
const maxFile = 8 << 20

// digest stands for a text; that of no file is empty.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// look returns the digest of the file's text, empty if there is none.
func look(root *os.Root, name string) (string, error) {
	shown := filepath.ToSlash(name)
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return "", saga.Failf("There is something at %q that is not a file.", shown)
	}
	f, info, err := openRegular(root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the old notes: %w", err)
	}
	defer f.Close()
	if info.Size() > maxFile {
		return "", saga.Failf("The file %q is too large to be release notes (%d bytes); nothing was written.", shown, info.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	return digest(text), err
}

// write puts the text into a file below dir, which appears whole or not at all. If
// another text is there than one with the digest replaceable, it leaves that as it
// is and returns its digest. id is the saga's. The file system itself keeps the path
// inside dir (os.Root), also when a link is exchanged meanwhile.
func write(dir, name, text, id, replaceable string) (other string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name = filepath.FromSlash(name)
	own := digest([]byte(text))
	for range 10 {
		found, err := look(root, name)
		switch {
		case err != nil:
			return "", err
		case found == own:
			tidy(root, name, id)
			return "", nil
		case found != "" && found != replaceable:
			return found, nil
		}
		switch err := put(root, name, text, id, found != ""); {
		case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
			// Another process was faster, or has tidied up: look again.
		case err != nil:
			return "", err
		}
	}
	return "", saga.Failf("The file %q comes and goes; somebody else is writing it.", filepath.ToSlash(name))
}

// put writes the text to a temporary file that no other attempt knows, and gives it
// the name.
func put(root *os.Root, name, text, id string, replace bool) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	temporary := temporaryPrefix(name, id) + rand.Text() + temporarySuffix
	if err := create(root, temporary, text); err != nil {
		return err
	}
	var err error
	if replace {
		err = root.Rename(temporary, name)
	} else {
		err = place(root, temporary, name, text)
	}
	return errors.Join(err, remove(root, temporary)) // gone already, if it was renamed
}

// The temporary files of one saga have names that begin alike.
func temporaryPrefix(name, id string) string { return name + "." + id + "." }

const temporarySuffix = ".tmp"

// tidy removes what attempts of the saga left that were cut off. It may take the
// temporary file of one that is under way, which then looks again.
func tidy(root *os.Root, name, id string) {
	dir, err := root.Open(filepath.Dir(name))
	if err != nil {
		return
	}
	defer dir.Close()
	prefix := filepath.Base(temporaryPrefix(name, id))
	for range 100 { // of a hundred names each
		names, err := dir.Readdirnames(100)
		for _, n := range names {
			if strings.HasPrefix(n, prefix) && strings.HasSuffix(n, temporarySuffix) {
				_ = root.Remove(filepath.Join(filepath.Dir(name), n))
			}
		}
		if err != nil {
			return
		}
	}
}

// create makes a file that must not be there yet.
func create(root *os.Root, name, text string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, remove(root, name))
	}
	return nil
}

// remove removes a file that another process may have removed before.
func remove(root *os.Root, name string) error {
	if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// place gives the temporary file its name, unless something has that name: a link,
// unlike a renamed file, takes no place that is taken. A file system without links
// gets another file.
func place(root *os.Root, temporary, name, text string) error {
	err := root.Link(temporary, name)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return create(root, name, text)
}

// openRegular opens a regular file for reading, and nothing else: the open of a pipe would wait for its
// other end.
func openRegular(root *os.Root, name string) (*os.File, os.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// errNotRegular is what [openRegular] says of a pipe, a directory and the like.
var errNotRegular = errors.New("not a regular file")
