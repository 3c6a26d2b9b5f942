// Package ident has the one rule for the names that travel in tokens and messages:
// the ids of questions, and the names of step functions and effects. (The names of
// tools, prompts and resources follow the rule of MCP.)
package ident

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Max is how many characters a name may have.
const Max = 64

// Rule says what a name is.
const Rule = "1 to 64 characters of A-Z a-z 0-9 _ - . : /"

const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/"

// Valid reports whether a name follows the rule. It leaves out what the engine adds
// to ids: "~" and "#".
func Valid(name string) bool {
	return name != "" && len(name) <= Max && strings.Trim(name, characters) == ""
}

// Base returns the id of a question as declared, given the id of one of its
// instances: "item" for "item#2". Other ids are returned as they are.
func Base(id string) string {
	base, _, _ := strings.Cut(id, "#")
	return base
}

// maxKey is how long the key of an event may be, in bytes.
const maxKey = 256

// KeyProblem says why a text cannot be the key of an event; empty if it can.
func KeyProblem(key string) string {
	switch {
	case key == "":
		return "the Key is empty"
	case len(key) > maxKey:
		return fmt.Sprintf("the Key is longer than %d bytes", maxKey)
	case !utf8.ValidString(key):
		return "the Key is not valid UTF-8"
	}
	return ""
}
