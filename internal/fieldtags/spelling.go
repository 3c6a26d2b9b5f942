package fieldtags

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Keys returns the names of the tags of a field, and false if a part of the tags is
// not written in the way that package reflect reads.
func Keys(st reflect.StructTag) (keys []string, ok bool) {
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

// misspelt returns the tag of ours that key was probably meant to be, or "". Tags
// of other packages must not be taken for ours: form is no misspelt format.
func misspelt(key string) string {
	names := append(elsewhere(), "jsonschema")
	for _, t := range tags() {
		names = append(names, t.name)
	}
	if slices.Contains(names, key) {
		return ""
	}
	plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
	best, nearest := "", 3
	for _, name := range names {
		lower := strings.ToLower(name)
		near := 0
		switch {
		case len(name) > 6:
			near = 2
		case name != "const" && plain != "" && plain[0] == lower[0]:
			near = 1
		}
		if d := distance(plain, lower); d <= near && d < nearest {
			best, nearest = name, d
		}
	}
	return best
}

// distance is how many letters have to be added, removed, replaced or exchanged with
// their neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
