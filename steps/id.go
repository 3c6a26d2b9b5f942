package steps

import (
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/ident"
)

// checkID reports what is wrong with the id of a question or of an instance, or "".
func checkID(id string) string {
	switch {
	case id == "":
		return "has no ID"
	case !ident.Valid(ident.Base(id)):
		return "the ID must be " + ident.Rule
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

// checkInstanceID is checkID for an instance, or else checkDeclaredID.
func checkInstanceID(id string, instance bool) string {
	if instance {
		return checkID(id)
	}
	return checkDeclaredID(id)
}
