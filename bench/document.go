package main

import (
	"bytes"
	"fmt"
	"os"
)

// section has f print a part of the report. If a document is to be kept, the part is
// put there as well, in Markdown, in place of what stands between its marks:
//
//	<!-- bench:name -->
//	<!-- /bench:name -->
func (o output) section(name string, f func(output) error) error {
	if o.document == "" {
		return f(o)
	}
	var b bytes.Buffer
	if err := f(output{Writer: &b, markdown: true}); err != nil {
		return err
	}
	if _, err := o.Write(b.Bytes()); err != nil {
		return err
	}
	old, err := os.ReadFile(o.document)
	if err != nil {
		return err
	}
	updated, err := withSection(old, name, b.Bytes())
	if err != nil {
		return fmt.Errorf("%s: %w", o.document, err)
	}
	return os.WriteFile(o.document, updated, 0o644)
}

// withSection returns the document with another text between the marks of a section.
func withSection(document []byte, name string, text []byte) ([]byte, error) {
	begin, end := "<!-- bench:"+name+" -->\n", "<!-- /bench:"+name+" -->"
	before, rest, found := bytes.Cut(document, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return nil, fmt.Errorf("there is no section between %q and %q", begin[:len(begin)-1], end)
	}
	return bytes.Join([][]byte{before, []byte(begin + "\n"), bytes.TrimSpace(text), []byte("\n\n" + end), after}, nil), nil
}
