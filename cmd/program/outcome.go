package program

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
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

// undoToken is by what to have tried again what could not be undone; empty if there is no such thing.
func (o *outcome) undoToken() string {
	token, _ := jsonview.String(jsonview.Get(o.raw, "_meta", "io.github.mcpsaga/undo", "sagaToken"))
	return token
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
	var err error
	switch {
	case asJSON:
		err = p.printJSON(o.raw)
	case o.isResource && to == "":
		err = p.printParts(c, o.files)
	case o.text != "":
		err = p.print(o.text)
	}
	if err == nil && to != "" {
		err = p.write(to, o.files)
	}
	switch {
	case err != nil:
		return err
	case o.isError && refused:
		return &exitError{exitDeclined, errors.New("")} // the tool has said so itself
	case o.isError:
		return &exitError{exitFailed, errors.New("the tool reported an error" + olderAdvice(c, o.text))}
	case c.String("as") == "" && formless[c.String("protocol")] && strings.Contains(o.text, "is not finished: it waits for an answer"):
		return &exitError{exitNeedsAnswer, fmt.Errorf("the tool waits for an answer, and nothing can be asked over --protocol %s: leave that out, or speak 2025-06-18 or later",
			c.String("protocol"))}
	}
	return nil
}

// formless are the revisions of MCP in which a server asks users nothing: it tells the model how to call the tool again.
var formless = map[string]bool{"2024-11-05": true, "2025-03-26": true}

// printParts prints the contents of a resource. What is not text goes to what is no terminal.
func (p *program) printParts(c *cli.Command, parts []file) error {
	if len(parts) == 1 && parts[0].isBinary && !term.Is(p.stdout) {
		_, err := p.stdout.Write(parts[0].data)
		return failed(err)
	}
	for i, part := range parts {
		if len(parts) > 1 {
			p.remark("part %d: %s %s", i+1, plain.Line(part.name), plain.Line(part.kind))
		}
		if part.isBinary {
			return p.usage(c, "the resource is not text: write it into a directory with --to DIR")
		}
		if err := p.print(string(part.data)); err != nil {
			return err
		}
	}
	return nil
}

// write writes files into a directory, where it replaces none.
func (p *program) write(dir string, files []file) error {
	for i, f := range files {
		name, err := writeNew(dir, f.fileName(i+1), f.data)
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("--to: %w", err)}
		}
		p.remark("wrote %s (%d bytes, %s)", name, len(f.data), cmp.Or(plain.Line(f.kind), "of no type"))
	}
	return nil
}

// canWrite fails if no file can be written into a directory.
func canWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".saga-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
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

// writeNew writes a file that was not there; if one of that name is, its name gets a number.
func writeNew(dir, name string, data []byte) (string, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		ending := filepath.Ext(name)
		f, err = os.CreateTemp(dir, strings.TrimSuffix(name, ending)+"-*"+ending)
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}

// input reads a file, or what path - stands for: the standard input.
func (p *program) input(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(p.stdin)
	}
	return os.ReadFile(path)
}

// say writes a remark for the user. What goes to the standard output is for
// programs.
func (p *program) say(format string, args ...any) {
	fmt.Fprintf(p.stderr, format+"\n", args...)
}

// remark is say with the name of this program before it.
func (p *program) remark(format string, args ...any) {
	p.say("%s: "+format, append([]any{p.name}, args...)...)
}

// errOutput: what was to be printed is lost.
var errOutput = errors.New("the standard output cannot be written")

// print writes a server's text to the standard output: as it is for a program,
// harmless for a terminal.
func (p *program) print(text string) error {
	if term.Is(p.stdout) {
		text = plain.Text(text)
	}
	if _, err := fmt.Fprintln(p.stdout, strings.TrimRight(text, "\n")); err != nil {
		return &exitError{exitFailed, fmt.Errorf("%w: %w", errOutput, err)}
	}
	return nil
}

// printJSON writes a value as indented JSON, which has no control characters of its own.
func (p *program) printJSON(value any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return failed(err)
	}
	return p.print(b.String())
}

// table writes to the standard output what tabs separate, in columns below their heads.
func (p *program) table(heads string, rows []string) error {
	return failed(term.WriteTable(p.stdout, heads, rows))
}

// printRows writes what a list holds: as JSON, or as a table, or that there is nothing.
func printRows[T any](p *program, c *cli.Command, rows []T, nothing, heads string, columns func(T) string) error {
	switch {
	case c.String("output") == "json":
		return p.printJSON(orEmpty(rows))
	case len(rows) == 0:
		p.say("%s", nothing)
		return nil
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, columns(row))
	}
	return p.table(heads, lines)
}

// orEmpty has a list that is nil encoded as an empty one.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// maxCell limits a text in a table, in characters.
const maxCell = 40

func cell(text string) string { return plain.Short(text, maxCell) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "unknown"
	case d < time.Minute:
		return "just now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// until says until when a task is kept, if that is known.
func until(expires *time.Time) string {
	switch {
	case expires == nil:
		return "?"
	case time.Now().After(*expires):
		return "no more"
	}
	return "until " + expires.Local().Format("2006-01-02 15:04")
}
