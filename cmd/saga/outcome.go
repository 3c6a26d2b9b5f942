package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/content"
)

// outcome is what a tool, prompt or resource has come to.
type outcome struct {
	raw   json.RawMessage // all of it, as the server said it
	text  string
	files []file
	// isResource: the files are all there is, and shown unless they are written.
	isResource bool
	isError    bool
}

// file is a part of an outcome that can be written into a file.
type file struct {
	name, kind string // name may be a URI, or missing
	data       []byte
	isBinary   bool
}

func newFile(name, kind, text string, blob []byte) file {
	if blob == nil {
		return file{name, kind, []byte(text), false}
	}
	return file{name, kind, blob, true}
}

func ofTool(r *client.Result) *outcome {
	if r == nil {
		return nil
	}
	o := &outcome{raw: r.Raw, text: term.Blocks(r.Content), isError: r.IsError}
	if len(r.Content) == 0 {
		o.text = string(r.StructuredContent)
	}
	for _, block := range r.Content {
		switch b := block.(type) {
		case content.Image:
			o.files = append(o.files, file{kind: b.MIMEType, data: b.Data})
		case content.Audio:
			o.files = append(o.files, file{kind: b.MIMEType, data: b.Data})
		case content.EmbeddedResource:
			o.files = append(o.files, newFile(b.URI, b.MIMEType, b.Text, b.Blob))
		}
	}
	return o
}

func ofPrompt(r *client.PromptResult) *outcome {
	if r == nil {
		return nil
	}
	var parts []string
	for _, message := range r.Messages {
		parts = append(parts, string(message.Role)+":\n"+term.Blocks(content.Blocks{message.Content}))
	}
	return &outcome{raw: r.Raw, text: strings.Join(parts, "\n\n")}
}

func ofResource(r *client.ResourceResult) *outcome {
	if r == nil {
		return nil
	}
	o := &outcome{raw: r.Raw, isResource: true}
	for _, c := range r.Contents {
		o.files = append(o.files, newFile(c.URI, c.MIMEType, c.Text, c.Blob))
	}
	return o
}

// end prints an outcome, and decides the exit code. The user has refused something, or not.
func (p *program) end(c *cli.Command, o *outcome, refused bool) error {
	asJSON, to := c.String("output") == "json", c.String("to")
	if asJSON {
		if err := p.printJSON(o.raw); err != nil {
			return err
		}
	}
	var err error
	switch {
	case to != "":
		err = p.write(to, o)
	case o.isResource && !asJSON:
		err = p.printParts(c, o.files)
	}
	if err != nil {
		return err
	}
	if o.text != "" && !asJSON {
		p.print(o.text)
	}
	switch {
	case o.isError && refused:
		return &exitError{exitDeclined, errors.New("")} // the tool has said so itself
	case o.isError:
		return &exitError{exitFailed, errors.New("the tool reported an error" + olderAdvice(c, o.text))}
	}
	return nil
}

// errBinary says that contents are not for this output.
var errBinary = errors.New("the resource is not text: name a file with --to FILE")

func (p *program) printParts(c *cli.Command, parts []file) error {
	if len(parts) == 1 && parts[0].isBinary && !term.Is(p.stdout) {
		_, err := p.stdout.Write(parts[0].data)
		return failed(err)
	}
	for i, part := range parts {
		if len(parts) > 1 {
			p.say("saga: part %d: %s %s", i+1, plain.Line(part.name), plain.Line(part.kind))
		}
		if part.isBinary {
			return p.usage(c, "%w", errBinary)
		}
		p.print(string(part.data))
	}
	return nil
}

// write writes files into a directory, where it replaces none, or the one part of a resource
// to the file that is named.
func (p *program) write(to string, o *outcome) error {
	into, err := os.Stat(to)
	isFile := o.isResource && (err != nil || !into.IsDir())
	if isFile && len(o.files) != 1 {
		return &exitError{exitUsage, fmt.Errorf("--to: the resource has %d parts, so name a directory that is there; %q is none", len(o.files), to)}
	}
	for i, f := range o.files {
		name := to
		if isFile {
			err = os.WriteFile(to, f.data, 0o666)
		} else {
			name, err = writeNew(to, f.fileName(i+1), f.data)
		}
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("--to: %w", err)}
		}
		p.say("saga: wrote %s (%d bytes, %s)", name, len(f.data), cmp.Or(plain.Line(f.kind), "of no type"))
	}
	return nil
}

// maxName limits the name of a file that is made of a URI, in characters.
const maxName = 100

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// fileName makes a name of the last part of a URI, which is the server's, or of the type: of
// harmless characters, no hidden file and no directory.
func (f *file) fileName(n int) string {
	last := f.name
	if last == "" { // image.svg for image/svg+xml
		family, ending, _ := strings.Cut(f.kind, "/")
		ending, _, _ = strings.Cut(ending, "+")
		last = family + "." + ending
	}
	if parsed, err := url.Parse(last); err == nil {
		last = path.Base(path.Join(parsed.Host, parsed.Path, parsed.Opaque))
	}
	name := notInNames.ReplaceAllString(last, "-")
	name = strings.Trim(name[max(0, len(name)-maxName):], ".-")
	if name == "" {
		name = "part-" + strconv.Itoa(n)
	}
	return name
}

// writeNew writes a file that was not there, adding a number to its name if need be.
func writeNew(dir, name string, data []byte) (string, error) {
	extension := filepath.Ext(name)
	for n := 1; n <= 1000; n++ {
		full := filepath.Join(dir, name)
		if n > 1 {
			full = filepath.Join(dir, fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, extension), n, extension))
		}
		f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(data)
		return full, errors.Join(err, f.Close())
	}
	return "", fmt.Errorf("there are too many files %s in %s already", name, dir)
}
