package content

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

type member = jsonview.Member

var required, optional = jsonview.Required, jsonview.Optional

// What MCP demands of blocks. Members are checked in this order.
var (
	textMembers       = append([]member{required("text", isString)}, hints...)
	mediaMembers      = append([]member{required("data", isString), required("mimeType", isString)}, hints...)
	resourceMembers   = append([]member{required("resource", isObject)}, hints...)
	contentsMembers   = []member{required("uri", isString), optional("mimeType", isString), optional("_meta", isObject), required("text", isString)}
	blobMembers       = []member{required("uri", isString), optional("mimeType", isString), optional("_meta", isObject), required("blob", isString)}
	toolUseMembers    = []member{required("id", isString), required("name", isString), required("input", isObject), optional("_meta", isObject)}
	toolResultMembers = []member{required("toolUseId", isString), optional("_meta", isObject), required("content", isAny), optional("isError", isBool)}
	linkMembers       = append([]member{required("uri", isString), required("name", isString), optional("title", isString),
		optional("description", isString), optional("mimeType", isString), optional("size", isNumber), optional("icons", areIcons)}, hints...)
	annotationMembers = []member{optional("audience", areStrings), optional("priority", isPriority), optional("lastModified", isString)}
	iconMembers       = []member{required("src", isString), optional("mimeType", isString), optional("sizes", areStrings), optional("theme", isString)}
	hints             = []member{optional("annotations", areAnnotations), optional("_meta", isObject)}
)

// check returns an *[Error] about the first member that is not as it must be.
func check(typ string, raw []byte, members []member) error {
	if name, err := jsonview.Check(raw, members); err != nil {
		return &Error{Type: typ, Member: name, Err: err}
	}
	return nil
}

func isAny(v jsontext.Value) error { return unless(v, true, nil) }

func isString(v jsontext.Value) error { return unless(v, v.Kind() == '"', errNotString) }

func isObject(v jsontext.Value) error { return unless(v, v.Kind() == '{', errNotObject) }

func isNumber(v jsontext.Value) error { return unless(v, v.Kind() == '0', errNotInteger) }

func isBool(v jsontext.Value) error {
	return unless(v, v.Kind() == 't' || v.Kind() == 'f', errNotBool)
}

func unless(v jsontext.Value, ok bool, err error) error {
	switch {
	case v == nil:
		return errMissing
	case ok:
		return nil
	}
	return err
}

func areStrings(v jsontext.Value) error {
	_, ok := jsonview.Strings(v)
	return unless(v, ok, errNotStrings)
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
	_, err := jsonview.Check(v, annotationMembers)
	return err
}

func isPriority(v jsontext.Value) error {
	if v.Kind() != '0' {
		return errNotNumber
	}
	x, _ := strconv.ParseFloat(string(v), 64) // infinite if it is too large
	return unless(v, x >= 0 && x <= 1, errPriority)
}
