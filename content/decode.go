package content

import (
	"bytes"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// ParseBlock reads one block. data must be one JSON object, without duplicate
// names and in valid UTF-8. The error names the block's type and the member at fault.
func ParseBlock(data []byte) (Block, error) {
	if !jsonview.Valid(data) {
		return nil, &blockError{err: errNotJSON}
	}
	return readBlock(bytes.TrimSpace(data))
}

// rawType returns the member "type" of a block, or "" if it has none.
func rawType(raw []byte) string {
	if !jsonview.Valid(raw) {
		return ""
	}
	typ, _ := jsonview.String(jsonview.Get(raw, "type"))
	return typ
}

func readBlocks(list jsontext.Value) (Blocks, error) {
	blocks := Blocks{}
	switch list.Kind() {
	case 'n':
		return blocks, nil
	case '[':
	default:
		return nil, &blockError{err: errNotArray}
	}
	for item := range jsonview.Elements(list) {
		b, err := readBlock(item)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// readBlock reads a block from valid JSON.
func readBlock(raw jsontext.Value) (Block, error) {
	if raw.Kind() != '{' {
		return nil, &blockError{err: errNotObject}
	}
	name := jsontext.Value(jsonview.Get(raw, "type"))
	typ, ok := jsonview.String(name)
	switch {
	case name == nil:
		return nil, &blockError{member: "type", err: errMissing}
	case !ok:
		return nil, &blockError{member: "type", err: errNotString}
	case typ == "":
		return nil, &blockError{member: "type", err: errEmpty}
	}
	switch typ {
	case typeText:
		if jsonview.Get(raw, "annotations") == nil && jsonview.Get(raw, "_meta") == nil { // as in most
			if text, ok := jsonview.String(jsonview.Get(raw, "text")); ok {
				return Text{Text: text}, nil
			}
		}
		b, err := read[plainText](typ, raw, textMembers)
		return block(Text(b), err)
	case typeImage:
		b, err := read[plainImage](typ, raw, mediaMembers)
		return block(Image(b), err)
	case typeAudio:
		b, err := read[plainAudio](typ, raw, mediaMembers)
		return block(Audio(b), err)
	case typeResourceLink:
		b, err := read[plainResourceLink](typ, raw, linkMembers)
		return block(ResourceLink(b), err)
	case typeResource:
		return readResource(raw)
	case typeToolUse:
		b, err := read[plainToolUse](typ, raw, toolUseMembers)
		return block(ToolUse(b), err)
	case typeToolResult:
		b, err := read[plainToolResult](typ, raw, toolResultMembers)
		b.StructuredContent = bytes.Clone(jsonview.Get(raw, "structuredContent")) // null, too, is a result
		return block(ToolResult(b), err)
	}
	return Unknown{Raw: bytes.Clone(raw)}, nil
}

func block[B Block](b B, err error) (Block, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

func readResource(raw jsontext.Value) (Block, error) {
	members := contentsMembers
	inner := jsontext.Value(jsonview.Get(raw, "resource"))
	if blob := jsontext.Value(jsonview.Get(inner, "blob")); blob != nil && blob.Kind() != 'n' {
		members = blobMembers
	}
	if inner.Kind() == '{' {
		if err := check(typeResource, inner, members); err != nil {
			return nil, err
		}
	}
	b, err := read[plainResource](typeResource, raw, resourceMembers)
	if err != nil {
		return nil, err
	}
	in := b.Resource
	r := EmbeddedResource{URI: in.URI, MIMEType: in.MIMEType, Blob: in.Blob, ContentsMeta: in.Meta, Annotations: b.Annotations, Meta: b.Meta}
	if in.Blob == nil {
		r.Text = *in.Text
	}
	return r, nil
}

// read decodes a block after its members have been checked. What can still be wrong
// is reported by lenient and by the blocks within.
func read[B any](typ string, raw jsontext.Value, members []member) (b B, err error) {
	if err := check(typ, raw, members); err != nil {
		return b, err
	}
	if err := json.Unmarshal(raw, &b, lenient); err != nil {
		if at, ok := errors.AsType[*json.SemanticError](err); ok && at.Err != nil {
			return b, &blockError{typ: typ, member: at.JSONPointer.LastToken(), err: at.Err}
		}
		return b, &blockError{typ: typ, err: err}
	}
	return b, nil
}

// lenient reads what peers write, and the library would not take or not so: base64
// with line breaks, whole numbers with a fraction or an exponent, which are the same
// to JSON, and null for an object that is missing.
var lenient = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFunc(func(raw []byte, data *[]byte) error {
		text, ok := jsonview.String(raw)
		if !ok {
			return nil // null
		}
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return errNotBase64
		}
		*data = decoded
		return nil
	}),
	json.UnmarshalFunc(func(raw []byte, n *int64) error {
		whole, err := strconv.ParseInt(string(raw), 10, 64)
		if err == nil {
			*n = whole
			return nil
		}
		x, err := strconv.ParseFloat(string(raw), 64)
		if *n = int64(x); err != nil || float64(*n) != x {
			return errNotInteger
		}
		return nil
	}),
	json.UnmarshalFunc(func(raw []byte, v *stdjson.RawMessage) error {
		if jsontext.Value(raw).Kind() != 'n' {
			*v = bytes.Clone(raw)
		}
		return nil
	}),
))

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

// check returns an error about the first member that is not as it must be.
func check(typ string, raw []byte, members []member) error {
	if name, err := jsonview.Check(raw, members); err != nil {
		return &blockError{typ: typ, member: name, err: err}
	}
	return nil
}

var (
	isAny    = oneOf(`"{[0tfn`, nil)
	isString = oneOf(`"`, errNotString)
	isObject = oneOf("{", errNotObject)
	isNumber = oneOf("0", errNotInteger)
	isBool   = oneOf("tf", errNotBool)
)

// oneOf is the rule that a value is of one of some kinds, or else the error.
func oneOf(kinds string, otherwise error) func(jsontext.Value) error {
	return func(v jsontext.Value) error {
		switch {
		case v == nil:
			return errMissing
		case strings.IndexByte(kinds, byte(v.Kind())) >= 0:
			return nil
		}
		return otherwise
	}
}

func areStrings(v jsontext.Value) error {
	if _, ok := jsonview.Strings(v); !ok {
		return errNotStrings
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
	_, err := jsonview.Check(v, annotationMembers)
	return err
}

func isPriority(v jsontext.Value) error {
	if v.Kind() != '0' {
		return errNotNumber
	}
	if x, _ := strconv.ParseFloat(string(v), 64); !(x >= 0 && x <= 1) { // infinite if it is too large
		return errPriority
	}
	return nil
}
