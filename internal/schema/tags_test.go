package schema

import (
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readTags reads the tags of a field of a kind whose type has no limits.
func readTags(tags reflect.StructTag, k kind, in place) error {
	return (&field{&jsonschema.Schema{Items: &jsonschema.Schema{}}, k, in}).errorOf(tags)
}

func (f *field) errorOf(tags reflect.StructTag) error {
	tag, reason := f.read(tags)
	if reason == "" {
		return nil
	}
	return &FieldError{Field: "F", Tag: tag, Reason: reason}
}

func TestKeys(t *testing.T) {
	for tags, want := range map[reflect.StructTag][]string{
		``:                                 nil,
		`a:"1"`:                            {"a"},
		`  a:"1"  b:"2 c:\"3\" d: e"f:"" `: {"a", "b", "f"},
	} {
		got, ok := keys(tags)
		assert.True(t, ok, tags)
		assert.Equal(t, want, got, tags)
	}
	for _, tags := range []reflect.StructTag{`a`, `a:`, `a: "1"`, `a:'1'`, "a:`1`", `a:"1`, `:"1"`, `a b:"1"`, `a:"1" b`, `a:"1";b:"2"x`, "a\x7f:\"1\""} {
		_, ok := keys(tags)
		assert.False(t, ok, tags)
		assert.ErrorContains(t, readTags(tags, text, inTool), "not written as Go wants them", tags)
	}
	assert.EqualError(t, readTags(`enum:"a" json:"x" enum:"b"`, text, inTool), "F, tag enum: is there twice, and only the first is seen")
	assert.True(t, hasTags(`json:"a" enum:"a"`))
	assert.False(t, hasTags(`json:"a" jsonschema:"enum" form:"a"`))
}

func TestMisspeltTags(t *testing.T) {
	for key, want := range map[string]string{
		"minimun": "minimum", "Minimum": "minimum", "minumum": "minimum", "mininum": "minimum", "maxmium": "maximum", "maximun": "maximum",
		"min_length": "minLength", "min-length": "minLength", "minlength": "minLength", "maxLenght": "maxLength", "maxLen": "",
		"enums": "enum", "Enum": "enum", "enm": "enum", "fromat": "format", "formats": "format", "titel": "title", "patern": "pattern",
		"defualt": "default", "minItem": "minItems", "exclusiveMinium": "exclusiveMinimum", "uniqueItem": "uniqueItems", "notSecret": "notsecret",
		"multiple_of": "multipleOf", "headers": "header", "jsonschemas": "jsonschema", "json_schema": "jsonschema",
		// Of others.
		"form": "", "env": "", "num": "", "cost": "", "cons": "", "reader": "", "json": "", "min": "", "max": "", "len": "", "name": "", "url": "",
		"validate": "", "binding": "", "mapstructure": "", "example": "", "param": "", "options": "", "_": "", "rename": "",
	} {
		err := readTags(reflect.StructTag(key+`:"1"`), text, inTool)
		if want == "" {
			assert.NoError(t, err, key)
			continue
		}
		assert.EqualError(t, err, "F, tag "+key+": is written "+want)
	}
	for key, want := range map[string]string{"require": "a field is required unless", "descripton": "write the description in the tag jsonschema"} {
		assert.ErrorContains(t, readTags(reflect.StructTag(key+`:"1"`), text, inForm), "tag "+key+": "+want)
	}
}

func TestContradictions(t *testing.T) {
	for tags, ok := range map[reflect.StructTag]bool{
		`minimum:"1" maximum:"1"`: true, `minimum:"1.5" maximum:"1"`: false,
		`exclusiveMinimum:"1" maximum:"1"`: false, `exclusiveMinimum:"1" maximum:"1.5"`: true,
		`minimum:"1" exclusiveMaximum:"1"`: false, `minimum:"1" exclusiveMaximum:"1.5"`: true,
		`exclusiveMinimum:"1" exclusiveMaximum:"1"`: false, `exclusiveMinimum:"1" exclusiveMaximum:"1.5"`: true,
	} {
		err := readTags(tags, number, inTool)
		assert.Equal(t, ok, err == nil, "%s: %v", tags, err)
	}
	for tags, k := range map[reflect.StructTag]kind{`minLength:"2" maxLength:"2"`: text, `minItems:"2" maxItems:"2"`: list} {
		require.NoError(t, readTags(tags, k, inTool))
	}
	for tags, k := range map[reflect.StructTag]kind{`minLength:"2" maxLength:"1"`: text, `minItems:"2" maxItems:"1"`: list} {
		require.ErrorContains(t, readTags(tags, k, inTool), "1 is less than 2, the least allowed so far")
	}
}

func TestValuesOfTags(t *testing.T) {
	for tag, want := range map[string]string{
		`minLength:"0"`: "", `minLength:"-1"`: `tag minLength: "-1" is not a whole number from 0 on`, `maxLength:"1.5"`: "is not a whole number", `maxLength:""`: "is not a whole number",
		`format:"email"`: "", `format:"ipv4"`: `"ipv4" is not a format MCP knows`, `pattern:"a"`: "", `pattern:""`: "is not a regular expression", `pattern:"[a"`: "is not a regular expression",
		`enum:"a"`: "", `enum:""`: "has an empty choice", `enum:"a|"`: "has an empty choice", `enum:"=A"`: "has an empty choice", `enum:"a|a"`: `there are two choices "a"`,
		`notsecret:"no"`: "", `notsecret:" "`: "says why", `enum:"a" pattern:"a"`: "tag pattern: is not for a choice", `uniqueItems:"true"`: "is not for text",
	} {
		err := readTags(reflect.StructTag(tag), text, inTool)
		if want == "" {
			assert.NoError(t, err, tag)
		} else {
			assert.ErrorContains(t, err, want, tag)
		}
	}
	for tag, want := range map[string]string{
		`minimum:"1.5"`: "is not a whole number", `minimum:"1.0"`: "", `minimum:"1e400"`: "is not a number", `minimum:"NaN"`: "is not a number", `minimum:"Inf"`: "is not a number",
		`minimum:"-3"`: "", `minimum:"-4"`: "-4 is less than -3, the least allowed so far", `maximum:"3"`: "", `maximum:"4"`: "4 is more than 3, the most allowed so far",
		`multipleOf:"0.5"`: "", `multipleOf:"0"`: "is not a number greater than 0", `multipleOf:"-1"`: "is not a number greater than 0", `multipleOf:"x"`: "is not a number greater than 0",
	} {
		low, high := -3.0, 3.0
		err := (&field{&jsonschema.Schema{Minimum: &low, Maximum: &high}, wholeNumber, inTool}).errorOf(reflect.StructTag(tag))
		if want == "" {
			assert.NoError(t, err, tag)
		} else {
			assert.ErrorContains(t, err, want, tag)
		}
	}
	unique := &field{&jsonschema.Schema{}, list, inTool}
	require.NoError(t, unique.errorOf(`uniqueItems:"true"`))
	assert.True(t, unique.UniqueItems)
	require.ErrorContains(t, readTags(`uniqueItems:"false"`, list, inTool), `is "true", or left out`)
	// An enum decides what the other tags mean, wherever it is written.
	chosen := &field{&jsonschema.Schema{Items: &jsonschema.Schema{}}, textList, inForm}
	require.NoError(t, chosen.errorOf(`minItems:"1" enum:"a|b=B"`))
	assert.Equal(t, []any{"a", "b"}, chosen.Items.Enum)
	assert.Equal(t, []*jsonschema.Schema{{Const: new(any("a")), Title: "a"}, {Const: new(any("b")), Title: "B"}}, chosen.Items.OneOf)
	for _, tag := range []reflect.StructTag{`pattern:"a"`, `exclusiveMinimum:"1"`, `exclusiveMaximum:"1"`, `multipleOf:"1"`, `uniqueItems:"true"`, `const:"a"`} {
		assert.ErrorContains(t, readTags(tag, text, inForm), "MCP does not allow this keyword in forms", tag)
	}
	assert.ErrorContains(t, readTags(`header:"A"`, text, inForm), "tag header: is for the arguments of a tool")
}

func TestFormats(t *testing.T) {
	for format, values := range map[string]map[string]bool{
		"email": {"a@b": true, "ada@example.com": true, "Ada <a@b>": false, "<a@b>": false, "a@": false, "@b": false, " a@b": false, "a@b ": false, "": false},
		"uri": {"https://a": true, "http://a/b?c#d": true, "urn:a": true, "mailto:a@b": true, "x:/": true, "x://a": true, "a:": false, "https://": false, "http:a": false,
			"https:///a": false, "//a": false, "/a": false, "": false, "https://a/ ": false, "https://a/\x7f": false, "https://a/é": false, "https://a/~!": true, "https://a/^": false,
			"https://a/%zz": false, "https://:80": false},
		"date": {"2024-02-29": true, "2023-02-29": false, "0000-01-01": true, "9999-12-31": true, "2026-12-32": false, "2026-13-01": false, "2026-00-01": false, "2026-1-1": false,
			"10000-01-01": false, "2026-01-01 ": false, "": false},
		"date-time": {"2026-07-28T15:04:05Z": true, "2026-07-28T15:04:05.123456789+23:59": true, "2026-07-28T24:00:00Z": false, "2026-07-28T23:60:00Z": false,
			"2026-07-28T23:59:60Z": false, "2026-07-28T15:04:05": false, "2026-07-28 15:04:05Z": false, "2026-07-28T15:04:05,5Z": false, "2026-07-28T1:04:05Z": false,
			"2026-07-28T15:04:05+24:00": false, "2026-07-28T15:04:05+00:60": false, "2026-07-28T15:04:05-23:59": true,
			"2026-07-28T15:04:05-2359": false, "": false},
		"hostname": {"": true, "anything": true},
	} {
		for value, ok := range values {
			assert.Equal(t, ok, CheckFormat(format, value) == "", "%s %q", format, value)
		}
	}
}
