// Package arguments turns a command line into the arguments of a tool.
//
//	name=value    a value of the type that the tool's input schema gives it
//	name:=json    any JSON value
//	name=@file    the content of a file, as text
//
// A name that is given several times makes a list.
package arguments

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// schema is a JSON schema. It is nil if it says nothing of types, as true does.
type schema map[string]any

func schemaOf(value any) schema {
	s, _ := value.(map[string]any)
	return s
}

// property returns the schema of a property, and false if there is none.
func (s schema) property(name string) (schema, bool) {
	value, known := schemaOf(s["properties"])[name]
	return schemaOf(value), known
}

// Parse merges the words of a command line into base, which may be nil. The
// schema is the tool's input schema. Errors say what would be right.
func Parse(base map[string]any, words []string, inputSchema json.RawMessage) (map[string]any, error) {
	var read any
	_ = json.Unmarshal(inputSchema, &read) // of an unknown kind of schema values stay texts
	input := schemaOf(read)
	merged := map[string]any{}
	maps.Copy(merged, base)
	given := map[string][]any{}
	for _, word := range words {
		name, value, err := parseWord(word, input)
		if err != nil {
			return nil, err
		}
		given[name] = append(given[name], value)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property, _ := input.property(name)
		values, kind := given[name], property.kind()
		raw, _ := values[0].(json.RawMessage)
		switch {
		case len(values) == 1 && (kind != "array" || raw != nil && raw[0] == '['):
			merged[name] = values[0]
		case len(values) > 1 && kind != "array" && kind != "":
			return nil, fmt.Errorf("%s is given %d times, but takes one value", name, len(values))
		default:
			merged[name] = values
		}
	}
	return merged, nil
}

func parseWord(word string, input schema) (name string, value any, err error) {
	if !utf8.ValidString(word) { // JSON cannot hold it
		return "", nil, fmt.Errorf("%q is not in UTF-8", word)
	}
	name, text, found := strings.Cut(word, "=")
	name, isJSON := strings.CutSuffix(name, ":")
	if !found || name == "" {
		return "", nil, fmt.Errorf("%q is not an argument: write name=value, or name:=json", word)
	}
	property, known := input.property(name)
	if !known && input["additionalProperties"] == false {
		names := slices.Sorted(maps.Keys(schemaOf(input["properties"])))
		return "", nil, fmt.Errorf("the tool has no argument %q; it has: %s", name, strings.Join(names, ", "))
	}
	if isJSON {
		if value, err = compact(text); err != nil {
			return "", nil, fmt.Errorf("%s: %q is not JSON: %v", name, text, err)
		}
		return name, value, nil
	}
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		data, err := os.ReadFile(path)
		if err == nil && !utf8.Valid(data) {
			err = fmt.Errorf("%s is not a text in UTF-8; a tool may take such a file in base64", path)
		}
		if err != nil {
			return "", nil, fmt.Errorf("%s: %v", name, err)
		}
		return name, string(data), nil
	}
	if property.kind() == "array" && !strings.HasPrefix(strings.TrimSpace(text), "[") {
		property = schemaOf(property.sole()["items"])
	}
	value, err = convert(name, text, property.kind())
	return name, value, err
}

// sole returns the only choice that s has besides null, or s.
func (s schema) sole() schema {
	anyOf, _ := s["anyOf"].([]any)
	oneOf, _ := s["oneOf"].([]any)
	var found []schema
	for _, choice := range slices.Concat(anyOf, oneOf) {
		if c := schemaOf(choice).sole(); c.types() != "null" {
			found = append(found, c)
		}
	}
	if s["type"] == nil && len(found) == 1 {
		return found[0]
	}
	return s
}

// kind returns the type that a value must have, or nothing if there are several.
func (s schema) kind() string { return s.sole().types() }

// types is kind without choices.
func (s schema) types() string {
	types, many := s["type"].([]any)
	if !many {
		types = []any{s["type"]}
	}
	if len(types) > 1 {
		types = slices.DeleteFunc(slices.Clone(types), func(t any) bool { return t == "null" })
	}
	if len(types) != 1 {
		return ""
	}
	kind, _ := types[0].(string)
	return kind
}

// typed are the types of values that are not texts: in words, and how their JSON begins
// (a number by 0).
var typed = map[string]struct{ words, begins string }{
	"integer": {"a whole number", "0"}, "number": {"a number", "0"}, "boolean": {"true or false", "tf"},
	"array": {"a JSON array", "["}, "object": {"a JSON object", "{"},
}

// convert converts a value of the command line to a type.
func convert(name, text, kind string) (any, error) {
	t, known := typed[kind]
	if !known {
		return text, nil
	}
	value, err := compact(text)
	if err != nil || !strings.ContainsRune(t.begins, rune(jsontext.Value(value).Kind())) || kind == "integer" && strings.ContainsAny(text, ".eE") {
		return nil, fmt.Errorf("%s must be %s, not %q", name, t.words, text)
	}
	return value, nil
}

// compact checks that a text is JSON.
func compact(text string) (json.RawMessage, error) {
	value := jsontext.Value(text)
	err := value.Compact()
	return json.RawMessage(value), err
}
