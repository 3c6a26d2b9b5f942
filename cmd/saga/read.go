package main

import (
	"context"
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
	"github.com/yosida95/uritemplate/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/arguments"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/content"
)

func (p *program) resourcesCommand() *cli.Command {
	return p.listCommand("resources", "everything", `Lists the resources that a server offers, and its templates: addresses with places {such}
as these, which saga read fills in.

Examples:
   saga resources
   saga resources --output json`, func(ctx context.Context, connection *client.Client) (any, []listRow, error) {
		resources, err := connection.Resources(ctx)
		if err != nil {
			return nil, nil, err
		}
		templates, err := connection.ResourceTemplates(ctx)
		var rows []listRow
		for _, r := range resources {
			rows = append(rows, listRow{name: r.URI, takes: r.MIMEType, description: r.Description})
		}
		for _, t := range templates {
			rows = append(rows, listRow{name: t.URITemplate, takes: t.MIMEType, description: t.Description})
		}
		return map[string]any{"resources": orEmpty(resources), "resourceTemplates": orEmpty(templates)}, rows, err
	})
}

// orEmpty has a list that is nil encoded as an empty one.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

func (p *program) readCommand() *cli.Command {
	return p.conversation(&cli.Command{
		Name:      "read",
		Usage:     "read a resource and answer what it asks",
		ArgsUsage: "URI [name=value ...]",
		Description: `Reads a resource of a server and prints it. The URI may be a template with places {such} as
these; name=value fills them in. What the server asks on the way is answered as with
saga call.

What is not text is written to the FILE of --to, or to the standard output if that is no
terminal. A resource of several parts is written into the directory of --to, one file
each; no file there is replaced.

Examples:
   saga read notes://today
   saga read 'files://people/{id}' id=7
   saga read images://logo --to logo.png`,
		Flags: []cli.Flag{stringFlag("to", "write the contents to `FILE`, or several into a directory", "")},
	}, "resource", func(ctx context.Context, c *cli.Command, connection *client.Client, handlers client.Handlers) (ending, error) {
		uri, err := expand(c.Args().First(), c.Args().Tail())
		if err != nil {
			return nil, err
		}
		return p.resource(connection.ReadResource(ctx, uri, handlers))
	})
}

// expand fills the words of a command line into a URI template.
func expand(template string, words []string) (string, error) {
	given, err := texts(words)
	if err != nil {
		return "", err
	}
	parsed, err := uritemplate.New(template)
	if err != nil {
		return "", &arguments.Error{Reason: fmt.Sprintf("%q is no URI and no template of one: %v", template, err)}
	}
	values := uritemplate.Values{}
	for _, name := range parsed.Varnames() {
		value, ok := given[name]
		if !ok {
			return "", &arguments.Error{Reason: fmt.Sprintf("%s is missing: the template has a place {%[1]s}, so add %[1]s=VALUE", name)}
		}
		values[name] = uritemplate.String(value)
		delete(given, name)
	}
	for name := range given {
		return "", &arguments.Error{Reason: fmt.Sprintf("the URI has no place {%s}", name)}
	}
	if len(values) == 0 {
		return template, nil
	}
	return parsed.Expand(values)
}

// texts reads name=value words whose values are texts.
func texts(words []string) (map[string]string, error) {
	schema := []byte(`{"type":"object","additionalProperties":{"type":"string"}}`)
	parsed, err := arguments.Parse(nil, words, schema)
	if err != nil {
		return nil, err
	}
	given := make(map[string]string, len(parsed))
	for name, value := range parsed {
		text, ok := value.(string)
		if !ok {
			return nil, &arguments.Error{Reason: name + " takes one text: write " + name + "=value, once"}
		}
		given[name] = text
	}
	return given, nil
}

func (p *program) resource(result *client.ResourceResult, err error) (ending, error) {
	return func(c *cli.Command, _ bool) error {
		switch to := c.String("to"); {
		case c.String("output") == "json":
			return p.printJSON(result.Raw)
		case to != "":
			return p.writeParts(to, result.Contents)
		}
		return p.printParts(c, result.Contents)
	}, err
}

// errBinary says that contents are not for this output.
var errBinary = errors.New("the resource is not text: name a file with --to FILE")

func (p *program) printParts(c *cli.Command, parts []content.ResourceContents) error {
	if len(parts) == 1 && parts[0].Blob != nil {
		if term.Is(p.stdout) {
			return p.usage(c, "%w", errBinary)
		}
		_, err := p.stdout.Write(parts[0].Blob)
		return failed(err)
	}
	for i, part := range parts {
		if len(parts) > 1 {
			p.say("saga: part %d: %s %s", i+1, plain.Line(part.URI), plain.Line(part.MIMEType))
		}
		if part.Blob != nil {
			return p.usage(c, "%w", errBinary)
		}
		p.print(part.Text)
	}
	return nil
}

// writeParts writes one part to a file, or several into a directory.
func (p *program) writeParts(to string, parts []content.ResourceContents) error {
	into, err := os.Stat(to)
	isDir := err == nil && into.IsDir()
	if !isDir && len(parts) != 1 {
		return &exitError{exitUsage, fmt.Errorf("--to: the resource has %d parts, so name a directory that is there; %q is none", len(parts), to)}
	}
	for i, part := range parts {
		name, data := to, part.Blob
		if data == nil {
			data = []byte(part.Text)
		}
		if isDir {
			name, err = writeNew(to, fileName(part.URI, i+1), data)
		} else {
			err = os.WriteFile(to, data, 0o666)
		}
		if err = p.wrote(name, data, part.MIMEType, err); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) wrote(name string, data []byte, kind string, err error) error {
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("--to: %w", err)}
	}
	if kind = plain.Line(kind); kind != "" {
		kind = ", " + kind
	}
	p.say("saga: wrote %s (%d bytes%s)", name, len(data), kind)
	return nil
}

// writeBlocks writes what a result holds besides text into a directory, unless that is not
// named. No file there is replaced.
func (p *program) writeBlocks(dir string, blocks content.Blocks) error {
	if dir == "" {
		return nil
	}
	for i, block := range blocks {
		var name, kind string
		var data []byte
		switch b := block.(type) {
		case content.Image:
			kind, data = b.MIMEType, b.Data
		case content.Audio:
			kind, data = b.MIMEType, b.Data
		case content.EmbeddedResource:
			name, kind, data = b.URI, b.MIMEType, b.Blob
			if data == nil {
				data = []byte(b.Text)
			}
		default:
			continue
		}
		if name == "" { // image.svg for image/svg+xml
			family, ending, _ := strings.Cut(kind, "/")
			ending, _, _ = strings.Cut(ending, "+")
			name = family + "." + ending
		}
		path, err := writeNew(dir, fileName(name, i+1), data)
		if err = p.wrote(path, data, kind, err); err != nil {
			return err
		}
	}
	return nil
}

// maxName limits the name of a file that is made of a URI, in characters.
const maxName = 100

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// fileName makes a name of the last part of a URI, which is the server's: of harmless
// characters, no hidden file and no directory.
func fileName(uri string, n int) string {
	last := uri
	if parsed, err := url.Parse(uri); err == nil {
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
