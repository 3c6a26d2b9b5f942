package content

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// ParseBlock reads one block. data must be one JSON object, without duplicate
// names and in valid UTF-8. The error names the block's type and the member at fault.
func ParseBlock(data []byte) (Block, error) {
	if !jsontext.Value(data).IsValid() {
		return nil, &blockError{err: errNotJSON}
	}
	return readBlock(bytes.TrimSpace(data))
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
		return read(typ, raw, func(b plainText) Block { return Text(b) }, "text")
	case typeImage:
		return read(typ, raw, func(b plainImage) Block { return Image(b) }, "data", "mimeType")
	case typeAudio:
		return read(typ, raw, func(b plainAudio) Block { return Audio(b) }, "data", "mimeType")
	case typeResourceLink:
		for icon := range jsonview.Elements(jsonview.Get(raw, "icons")) {
			if err := require(typ, icon, "src"); err != nil {
				return nil, &blockError{typ, "icons", err}
			}
		}
		return read(typ, raw, func(b plainResourceLink) Block { return ResourceLink(b) }, "uri", "name")
	case typeResource:
		return readResource(raw)
	case typeToolUse:
		return read(typ, raw, func(b plainToolUse) Block { return ToolUse(b) }, "id", "name", "input")
	case typeToolResult:
		return read(typ, raw, func(b plainToolResult) Block {
			b.StructuredContent = bytes.Clone(jsonview.Get(raw, "structuredContent")) // null, too, is a result
			return ToolResult(b)
		}, "toolUseId", "content")
	}
	return Unknown{Raw: bytes.Clone(raw)}, nil
}

func readResource(raw jsontext.Value) (Block, error) {
	payload := "resource.text"
	if blob := jsontext.Value(jsonview.Get(raw, "resource", "blob")); blob != nil && blob.Kind() != 'n' {
		payload = "resource.blob"
	}
	return read(typeResource, raw, func(b plainResource) Block {
		in := b.Resource
		r := EmbeddedResource{URI: in.URI, MIMEType: in.MIMEType, Blob: in.Blob, ContentsMeta: in.Meta, Annotations: b.Annotations, Meta: b.Meta}
		if in.Blob == nil {
			r.Text = *in.Text
		}
		return r
	}, "resource", "resource.uri", payload)
}

// require returns an error about the first of some members that an object does not have.
// The content of a tool result may be null, as every list of blocks.
func require(typ string, object []byte, members ...string) error {
	for _, member := range members {
		v := jsontext.Value(jsonview.Get(object, strings.Split(member, ".")...))
		if v == nil || v.Kind() == 'n' && member != "content" {
			return &blockError{typ, member, errMissing}
		}
	}
	return nil
}

// read decodes a block that has some members.
func read[B any](typ string, raw jsontext.Value, block func(B) Block, required ...string) (Block, error) {
	if err := require(typ, raw, required...); err != nil {
		return nil, err
	}
	var b B
	if err := json.Unmarshal(raw, &b, lenient); err != nil {
		return nil, misfit(typ, err)
	}
	if err := check(typ, raw, true); err != nil {
		return nil, err
	}
	return block(b), nil
}

// check reports what struct tags cannot say of the members of a block: that JSON made
// elsewhere is what MCP demands, and that a priority is one. Null is read as nothing, and not
// written.
func check(typ string, block jsontext.Value, read bool) error {
	if v := jsontext.Value(jsonview.Get(block, "annotations", "priority")); v.Kind() == '0' {
		if x, err := strconv.ParseFloat(string(v), 64); err != nil || x < 0 || x > 1 {
			return &blockError{typ, "annotations", errPriority}
		}
	}
	objects := []string{"_meta"}
	switch typ {
	case typeResource:
		objects = append(objects, "resource._meta")
	case typeToolUse:
		objects = append(objects, "input")
	}
	for _, member := range objects {
		v := jsontext.Value(jsonview.Get(block, strings.Split(member, ".")...))
		if v != nil && v.Kind() != '{' && !(read && v.Kind() == 'n') {
			return &blockError{typ, member, errNotObject}
		}
	}
	return nil
}

// misfit says in the words of JSON which member is not of the type that it must be.
func misfit(typ string, err error) error {
	at, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return &blockError{typ: typ, err: err}
	}
	reason := at.Err
	if errors.As(reason, new(*jsontext.SyntacticError)) {
		reason = errNotJSON
	} else if reason == nil {
		reason = map[reflect.Kind]error{
			reflect.String: errNotString, reflect.Bool: errNotBool, reflect.Float64: errNotNumber, reflect.Slice: errNotArray,
		}[at.GoType.Kind()]
	}
	return &blockError{typ, strings.Join(slices.Collect(at.JSONPointer.Tokens()), "."), cmp.Or(reason, errNotObject)}
}

// lenient reads what peers write and the library would refuse: base64 with line breaks,
// whole numbers with a fraction or an exponent, which are the same to JSON, and null for
// an object that is missing.
var lenient = json.JoinOptions(jsonv1.ParseBytesWithLooseRFC4648(true), json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFunc(func(raw []byte, n *int64) error {
		var ok bool
		if *n, ok = jsonview.Int64(raw); !ok {
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
)))
