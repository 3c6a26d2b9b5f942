package steps

import (
	"strconv"
	"strings"
)

// maxID bounds an id in bytes: ids travel in every message and in the token.
const maxID = 128

// checkID reports what is wrong with the id of a question, or "".
func checkID(id string) string {
	switch {
	case id == "":
		return "has no ID"
	case len(id) > maxID:
		return "the ID is longer than " + strconv.Itoa(maxID) + " bytes"
	case strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return "the ID holds control characters or is not UTF-8"
	}
	return ""
}

// checkDeclaredID is checkID for a question that is not an instance.
func checkDeclaredID(id string) string {
	if strings.Contains(id, "#") {
		return `the ID holds "#", which separates the number that Nth adds`
	}
	return checkID(id)
}

// nthID returns the id of the n-th instance of a question.
func nthID(id string, n int) string { return id + "#" + strconv.Itoa(n) }

// BaseID returns the id of the question as declared, given the id of one of its
// instances: "item" for "item#2" (see [Form.Nth]). Other ids are returned as
// they are.
func BaseID(id string) string {
	base, _, _ := strings.Cut(id, "#")
	return base
}
