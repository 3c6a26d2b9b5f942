package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// maxDump limits how much is shown of a state that is not text, in bytes.
const maxDump = 512

// printHolds prints as rows what a token holds, as far as that is short.
func (p *program) printHolds(d *engine.Description, row func(name, format string, args ...any)) {
	switch {
	case d.Next == "":
		row("goes on", "not at all: it can only be undone")
	case d.Flow:
		row("goes on", "in the flow")
	default:
		row("goes on", "in the step function %q", d.Next)
	}
	for i, step := range d.Steps {
		name, remark := "", ""
		if i == 0 {
			name = "asked"
		}
		if step.Answer != nil {
			remark = ", has been answered"
		}
		if step.Refused > 0 {
			remark += fmt.Sprintf(", after %s that did not fit", count(step.Refused, "answer"))
		}
		row(name, "%s%s", step.ID, remark)
	}
	if len(d.Secrets) > 0 {
		row("secrets", "%s: hidden; in the state they are null", strings.Join(d.Secrets, ", "))
	}
}

// printContents prints the parts of a token that take several lines.
func (p *program) printContents(d *engine.Description) {
	part := func(name string, value []byte) {
		if len(value) > 0 {
			p.print("\n" + name + ":\n" + indent(readable(value)))
		}
	}
	part("arguments", d.Arguments)
	part("state", d.State)
	for _, step := range d.Steps {
		part("answer to "+step.ID, step.Answer)
	}
	for _, answer := range d.Answers {
		part("answer to "+answer.ID, answer.Answer)
	}
	for _, e := range d.Effects {
		name := "effect " + e.Name
		if e.N > 1 {
			name += fmt.Sprintf(" (number %d)", e.N)
		}
		p.print("\n" + name + ": " + e.Status)
		p.print(indent("given " + readable(e.Input)))
		if e.Output != nil {
			p.print(indent("returned " + readable(e.Output)))
		}
		if e.Problem != "" {
			p.print(indent("because " + e.Problem))
		}
		for _, name := range e.Secrets {
			p.print(indent(strings.TrimSpace("secret "+name) + ": hidden"))
		}
	}
}

// readable shows a value: JSON indented, text as it is, and everything else as the
// bytes that it is.
func readable(value []byte) string {
	var indented bytes.Buffer
	switch {
	case json.Indent(&indented, value, "", "  ") == nil:
		return indented.String()
	case utf8.Valid(value) && !bytes.ContainsFunc(value, isBinary):
		return string(value)
	}
	shown := value[:min(len(value), maxDump)]
	text := fmt.Sprintf("%s in an encoding of the tool's own\n%s", count(len(value), "byte"), strings.TrimRight(hex.Dump(shown), "\n"))
	if more := len(value) - len(shown); more > 0 {
		text += fmt.Sprintf("\n… and %s more", count(more, "byte"))
	}
	return text
}

// isBinary reports whether a character is none of a text.
func isBinary(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f }

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
