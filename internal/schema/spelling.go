package schema

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// keys returns the names of the tags of a field, and false if a part of the tags is
// not written in the way that package reflect reads.
func keys(st reflect.StructTag) (keys []string, ok bool) {
	rest := string(st)
	for {
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			return keys, true
		}
		key, after, found := strings.Cut(rest, ":")
		if !found || key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
			return keys, false
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil || quoted[0] != '"' {
			return keys, false
		}
		keys = append(keys, key)
		rest = after[len(quoted):]
	}
}

// misspelt returns the tag that key was probably meant to be, or "". Tags of other
// packages must not be mistaken for one of ours: form is no misspelt format.
func misspelt(key string) string {
	names := []string{"const", "description", "jsonschema", "required"} // which authors may expect to be tags
	for _, t := range tags {
		names = append(names, t.name)
	}
	if slices.Contains(names, key) {
		return ""
	}
	plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
	for edits := range 3 {
		for _, name := range names {
			lower, most := strings.ToLower(name), 0
			switch {
			case len(name) > 6:
				most = 2
			case name != "const" && plain != "" && plain[0] == lower[0]:
				most = 1
			}
			if edits <= most && similar(edits, plain, lower) {
				return name
			}
		}
	}
	return ""
}

// similar reports whether a becomes b when at most so many letters are added, removed,
// replaced or exchanged with their neighbours.
func similar(edits int, a, b string) bool {
	switch {
	case a == "" || b == "":
		return len(a)+len(b) <= edits
	case a[0] == b[0] && similar(edits, a[1:], b[1:]):
		return true
	case edits == 0:
		return false
	}
	return similar(edits-1, a[1:], b) || similar(edits-1, a, b[1:]) || similar(edits-1, a[1:], b[1:]) ||
		len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] && similar(edits-1, a[2:], b[2:])
}
