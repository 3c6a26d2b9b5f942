package content

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// A member of a block as MCP demands it. The JSON library does not know members
// that are required, takes null for everything, and names Go types in its errors;
// so blocks are checked before they are decoded.
type member struct {
	name     string
	required bool // otherwise it may be missing, or null, which peers send for that
	is       func(jsontext.Value) error
}

// Members are checked in this order.
var (
	textMembers       = append([]member{{"text", true, isString}}, hints...)
	mediaMembers      = append([]member{{"data", true, isString}, {"mimeType", true, isString}}, hints...)
	resourceMembers   = append([]member{{"resource", true, isObject}}, hints...)
	contentsMembers   = []member{{"uri", true, isString}, {"mimeType", false, isString}, {"_meta", false, isObject}, {"text", true, isString}}
	blobMembers       = []member{{"uri", true, isString}, {"mimeType", false, isString}, {"_meta", false, isObject}, {"blob", true, isString}}
	toolUseMembers    = []member{{"id", true, isString}, {"name", true, isString}, {"input", true, isObject}, {"_meta", false, isObject}}
	toolResultMembers = []member{{"toolUseId", true, isString}, {"_meta", false, isObject}, {"content", true, isAny}, {"isError", false, isBool}}
	linkMembers       = append([]member{{"uri", true, isString}, {"name", true, isString}, {"title", false, isString},
		{"description", false, isString}, {"mimeType", false, isString}, {"size", false, isNumber}, {"icons", false, areIcons}}, hints...)
	iconMembers = []member{{"src", true, isString}, {"mimeType", false, isString}, {"sizes", false, areStrings}, {"theme", false, isString}}
	hints       = []member{{"annotations", false, areAnnotations}, {"_meta", false, isObject}}
)

// check returns what is wrong with the first member of a block that is.
func check(typ string, raw []byte, members []member) error {
	var found [10]jsontext.Value // as many as a link has
	for name, v := range jsonview.Members(raw) {
		for i := range members {
			if members[i].name == string(name) {
				found[i] = v
			}
		}
	}
	for i, m := range members {
		var err error
		switch v := found[i]; {
		case v == nil && m.required:
			err = errMissing
		case v != nil && (m.required || v.Kind() != 'n'):
			err = m.is(v)
		}
		if err != nil {
			return &Error{Type: typ, Member: m.name, Err: err}
		}
	}
	return nil
}

func isAny(jsontext.Value) error { return nil }

func isString(v jsontext.Value) error { return unless(v.Kind() == '"', errNotString) }

func isObject(v jsontext.Value) error { return unless(v.Kind() == '{', errNotObject) }

func isNumber(v jsontext.Value) error { return unless(v.Kind() == '0', errNotInteger) }

func isBool(v jsontext.Value) error { return unless(v.Kind() == 't' || v.Kind() == 'f', errNotBool) }

func unless(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

func areStrings(v jsontext.Value) error {
	if v.Kind() != '[' {
		return errNotStrings
	}
	for item := range jsonview.Elements(v) {
		if jsontext.Value(item).Kind() != '"' {
			return errNotStrings
		}
	}
	return nil
}

func areIcons(v jsontext.Value) error {
	if v.Kind() != '[' {
		return errNotArray
	}
	for icon := range jsonview.Elements(v) {
		if err := check(typeResourceLink, icon, iconMembers); err != nil {
			return err
		}
	}
	return nil
}

func areAnnotations(v jsontext.Value) error {
	if v.Kind() != '{' {
		return errNotObject
	}
	for _, m := range []member{{"audience", false, areStrings}, {"priority", false, isPriority}, {"lastModified", false, isString}} {
		if found := jsontext.Value(jsonview.Get(v, m.name)); found != nil && found.Kind() != 'n' {
			if err := m.is(found); err != nil {
				return err
			}
		}
	}
	return nil
}

func isPriority(v jsontext.Value) error {
	if v.Kind() != '0' {
		return errNotNumber
	}
	x, _ := strconv.ParseFloat(string(v), 64) // infinite if it is too large
	return unless(x >= 0 && x <= 1, errPriority)
}
