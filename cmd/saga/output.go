package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
)

// finish prints a tool's result and decides the exit code.
func (p *program) finish(c *cli.Command, result *client.Result, refused bool) error {
	if c.String("output") == "json" {
		if err := p.printJSON(result.Raw); err != nil {
			return failed(err)
		}
	} else if text := resultText(result); text != "" {
		p.print(text)
	}
	switch {
	case result.IsError && refused:
		return &exitError{exitDeclined, errors.New("")} // the tool has said so itself
	case result.IsError:
		return &exitError{exitFailed, errors.New("the tool reported an error")}
	}
	return nil
}

// print writes a server's text to the standard output: as it is for a program,
// harmless for a terminal.
func (p *program) print(text string) {
	if term.Is(p.stdout) {
		text = plain.Text(text)
	}
	fmt.Fprintln(p.stdout, strings.TrimRight(text, "\n"))
}

// printJSON writes JSON, indented. JSON has no control characters of its own.
func (p *program) printJSON(raw json.RawMessage) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", "  "); err != nil {
		return err
	}
	p.print(indented.String())
	return nil
}

// resultText is a result for reading.
func resultText(result *client.Result) string {
	if len(result.Content) == 0 && result.StructuredContent != nil {
		return string(result.StructuredContent)
	}
	return term.Blocks(result.Content)
}

func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
