package content

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// ParseBlock reads one block. data must be one JSON object, without duplicate
// names and in valid UTF-8. The error is an *[Error].
func ParseBlock(data []byte) (Block, error) {
	if !jsonview.Valid(data) {
		return nil, &Error{Err: errNotJSON}
	}
	return readBlock(gjson.ParseBytes(data))
}

// ParseBlocks reads an array of blocks. Null gives an empty list, because some
// peers send it. The error is an *[Error].
func ParseBlocks(data []byte) (Blocks, error) {
	if !jsonview.Valid(data) {
		return nil, &Error{Err: errNotJSON}
	}
	return readBlocks(gjson.ParseBytes(data))
}

// ParseSampling reads the content of a sampling message or result: an array of
// blocks or one block alone. The error is an *[Error].
func ParseSampling(data []byte) (Blocks, error) {
	if jsontext.Value(data).Kind() != '{' {
		return ParseBlocks(data)
	}
	b, err := ParseBlock(data)
	if err != nil {
		return nil, err
	}
	return Blocks{b}, nil
}

// rawType returns the member "type" of a block, or "" if it has none.
func rawType(raw []byte) string {
	if !jsonview.Valid(raw) {
		return ""
	}
	return member(gjson.ParseBytes(raw), "type").String()
}

// member returns the member of an object whose name is exactly name. It does
// not use gjson's paths, in which some characters have a meaning.
func member(obj gjson.Result, name string) (found gjson.Result) {
	if !obj.IsObject() {
		return found
	}
	obj.ForEach(func(key, v gjson.Result) bool {
		if key.Str == name {
			found = v
			return false
		}
		return true
	})
	return found
}

func readBlocks(v gjson.Result) (Blocks, error) {
	if v.Type == gjson.Null {
		return Blocks{}, nil
	}
	if !v.IsArray() {
		return nil, &Error{Err: errNotArray}
	}
	blocks := Blocks{}
	var err error
	v.ForEach(func(_, item gjson.Result) bool {
		var b Block
		if b, err = readBlock(item); err == nil {
			blocks = append(blocks, b)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return blocks, nil
}

// readBlock reads a block from valid JSON. Strings of the block share the memory
// of that JSON.
func readBlock(v gjson.Result) (Block, error) {
	if !v.IsObject() {
		return nil, &Error{Err: errNotObject}
	}
	typ := member(v, "type")
	if typ.Type != gjson.String {
		return nil, &Error{Member: "type", Err: missingOr(typ, errNotString)}
	}
	if typ.Str == "" {
		return nil, &Error{Member: "type", Err: errEmpty}
	}
	r := reader{obj: v, typ: typ.Str}
	var b Block
	switch typ.Str {
	case typeText:
		b = Text{Text: r.str("text"), Annotations: r.annotations(), Meta: r.meta()}
	case typeImage:
		b = Image{Data: r.blob("data"), MIMEType: r.str("mimeType"), Annotations: r.annotations(), Meta: r.meta()}
	case typeAudio:
		b = Audio{Data: r.blob("data"), MIMEType: r.str("mimeType"), Annotations: r.annotations(), Meta: r.meta()}
	case typeResourceLink:
		b = r.resourceLink()
	case typeResource:
		b = r.resource()
	case typeToolUse:
		b = ToolUse{ID: r.str("id"), Name: r.str("name"), Input: r.object("input", true), Meta: r.meta()}
	case typeToolResult:
		b = r.toolResult()
	default:
		b = Unknown{Raw: json.RawMessage(v.Raw)}
	}
	if r.err != nil {
		return nil, r.err
	}
	return b, nil
}

func (r *reader) resourceLink() Block {
	return ResourceLink{
		URI: r.str("uri"), Name: r.str("name"),
		Title: r.optional("title"), Description: r.optional("description"), MIMEType: r.optional("mimeType"),
		Size: r.size(), Icons: r.icons(),
		Annotations: r.annotations(), Meta: r.meta(),
	}
}

func (r *reader) resource() Block {
	inner := reader{obj: member(r.obj, "resource"), typ: r.typ}
	if !inner.obj.IsObject() {
		r.fail("resource", missingOr(inner.obj, errNotObject))
		return nil
	}
	b := Resource{
		URI: inner.str("uri"), MIMEType: inner.optional("mimeType"), ContentsMeta: inner.meta(),
		Annotations: r.annotations(), Meta: r.meta(),
	}
	if present(member(inner.obj, "blob")) {
		b.Blob = inner.blob("blob")
	} else {
		b.Text = inner.str("text")
	}
	if inner.err != nil {
		r.err = inner.err
	}
	return b
}

func (r *reader) toolResult() Block {
	b := ToolResult{ToolUseID: r.str("toolUseId"), Meta: r.meta()}
	list := member(r.obj, "content")
	if !list.Exists() {
		r.fail("content", errMissing)
		return nil
	}
	var err error
	if b.Content, err = readBlocks(list); err != nil {
		r.fail("content", err)
	}
	if v := member(r.obj, "structuredContent"); v.Exists() {
		b.StructuredContent = json.RawMessage(v.Raw)
	}
	if v := member(r.obj, "isError"); present(v) {
		if !v.IsBool() {
			r.fail("isError", errNotBool)
		}
		b.IsError = v.Bool()
	}
	return b
}

// reader reads the members of one block. The first error stays.
type reader struct {
	obj gjson.Result
	typ string
	err error
}

func (r *reader) fail(name string, err error) {
	if r.err == nil {
		r.err = &Error{Type: r.typ, Member: name, Err: err}
	}
}

// present reports whether an optional member is there. Peers send null as well
// for a member that is not.
func present(v gjson.Result) bool { return v.Type != gjson.Null }

func missingOr(v gjson.Result, err error) error {
	if !v.Exists() {
		return errMissing
	}
	return err
}

func (r *reader) str(name string) string {
	v := member(r.obj, name)
	if v.Type != gjson.String {
		r.fail(name, missingOr(v, errNotString))
	}
	return v.Str
}

func (r *reader) optional(name string) string {
	if v := member(r.obj, name); present(v) {
		if v.Type != gjson.String {
			r.fail(name, errNotString)
		}
		return v.Str
	}
	return ""
}

func (r *reader) blob(name string) []byte {
	data, err := base64.StdEncoding.DecodeString(r.str(name))
	if err != nil {
		r.fail(name, errNotBase64)
	}
	return data
}

func (r *reader) object(name string, required bool) json.RawMessage {
	v := member(r.obj, name)
	if !present(v) && !required {
		return nil
	}
	if !v.IsObject() {
		r.fail(name, missingOr(v, errNotObject))
	}
	return json.RawMessage(v.Raw)
}

func (r *reader) meta() json.RawMessage { return r.object("_meta", false) }

func (r *reader) size() *int64 {
	v := member(r.obj, "size")
	if !present(v) {
		return nil
	}
	if n, err := strconv.ParseInt(v.Raw, 10, 64); err == nil {
		return &n
	}
	// JSON does not distinguish 3 from 3.0 or 3e0.
	if n := int64(v.Num); v.Type == gjson.Number && float64(n) == v.Num {
		return &n
	}
	r.fail("size", errNotInteger)
	return nil
}

func strs[S ~string](r *reader, obj gjson.Result, name, fault string) []S {
	v := member(obj, name)
	if !present(v) {
		return nil
	}
	if !v.IsArray() {
		r.fail(fault, errNotStrings)
		return nil
	}
	var list []S
	v.ForEach(func(_, item gjson.Result) bool {
		if item.Type != gjson.String {
			r.fail(fault, errNotStrings)
			return false
		}
		list = append(list, S(item.Str))
		return true
	})
	return list
}

func (r *reader) icons() []Icon {
	v := member(r.obj, "icons")
	if !present(v) {
		return nil
	}
	if !v.IsArray() {
		r.fail("icons", errNotArray)
		return nil
	}
	var icons []Icon
	v.ForEach(func(_, item gjson.Result) bool {
		one := reader{obj: item, typ: r.typ}
		icons = append(icons, Icon{
			Src: one.str("src"), MIMEType: one.optional("mimeType"),
			Sizes: strs[string](&one, item, "sizes", "sizes"), Theme: one.optional("theme"),
		})
		if one.err != nil {
			r.fail("icons", one.err)
		}
		return one.err == nil
	})
	return icons
}

func (r *reader) annotations() *Annotations {
	v := member(r.obj, "annotations")
	if !present(v) {
		return nil
	}
	if !v.IsObject() {
		r.fail("annotations", errNotObject)
		return nil
	}
	a := Annotations{Audience: strs[Role](r, v, "audience", "annotations")}
	if p := member(v, "priority"); present(p) {
		switch {
		case p.Type != gjson.Number:
			r.fail("annotations", errNotNumber)
		case p.Num < 0 || p.Num > 1:
			r.fail("annotations", errPriority)
		}
		a.Priority = &p.Num
	}
	if m := member(v, "lastModified"); present(m) {
		if m.Type != gjson.String {
			r.fail("annotations", errNotString)
		}
		a.LastModified = m.Str
	}
	return &a
}
