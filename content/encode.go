package content

import (
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Blocks are written by hand, not by reflection: the order of members is fixed,
// and a turn's result should cost a handful of allocations.

// value returns the block that b points to if b is a pointer, so that
// &content.Text{...}, a natural slip, works as well. It returns nil for nil.
func value(b Block) Block {
	switch p := b.(type) {
	case *Text:
		return deref(p)
	case *Image:
		return deref(p)
	case *Audio:
		return deref(p)
	case *ResourceLink:
		return deref(p)
	case *Resource:
		return deref(p)
	case *ToolUse:
		return deref(p)
	case *ToolResult:
		return deref(p)
	case *Unknown:
		return deref(p)
	}
	return b
}

func deref[B Block](p *B) Block {
	if p == nil {
		return nil
	}
	return *p
}

func appendBlocks(dst []byte, blocks Blocks) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i, b := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendBlock(dst, b); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendBlock(dst []byte, block Block) ([]byte, error) {
	w := writer{buf: dst}
	switch b := value(block).(type) {
	case Text:
		w.open(typeText)
		w.str("text", b.Text)
		w.close(b.Annotations, b.Meta)
	case Image:
		w.open(typeImage)
		w.blob("data", b.Data)
		w.str("mimeType", b.MIMEType)
		w.close(b.Annotations, b.Meta)
	case Audio:
		w.open(typeAudio)
		w.blob("data", b.Data)
		w.str("mimeType", b.MIMEType)
		w.close(b.Annotations, b.Meta)
	case ResourceLink:
		w.resourceLink(&b)
	case Resource:
		w.resource(&b)
	case ToolUse:
		w.open(typeToolUse)
		w.str("id", b.ID)
		w.str("name", b.Name)
		if b.Input == nil {
			b.Input = []byte("{}")
		}
		w.object("input", b.Input)
		w.close(nil, b.Meta)
	case ToolResult:
		w.toolResult(&b)
	case Unknown:
		if rawType(b.Raw) == "" {
			return nil, &Error{Member: "type", Err: errEmpty}
		}
		w.raw("", b.Raw)
	default:
		w.fail("", errNil)
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.buf, nil
}

func (w *writer) resourceLink(b *ResourceLink) {
	w.open(typeResourceLink)
	w.str("uri", b.URI)
	w.str("name", b.Name)
	w.optional("title", b.Title)
	w.optional("description", b.Description)
	w.optional("mimeType", b.MIMEType)
	if b.Size != nil {
		w.name("size")
		w.buf = strconv.AppendInt(w.buf, *b.Size, 10)
	}
	if len(b.Icons) > 0 {
		w.icons(b.Icons)
	}
	w.close(b.Annotations, b.Meta)
}

func (w *writer) resource(b *Resource) {
	w.open(typeResource)
	w.buf = append(w.buf, `,"resource":{"uri":`...)
	w.quote(b.URI)
	w.optional("mimeType", b.MIMEType)
	if b.Blob != nil {
		w.blob("blob", b.Blob)
	} else {
		w.str("text", b.Text)
	}
	w.close(nil, b.ContentsMeta) // ends the member "resource"
	w.close(b.Annotations, b.Meta)
}

func (w *writer) toolResult(b *ToolResult) {
	w.open(typeToolResult)
	w.str("toolUseId", b.ToolUseID)
	w.name("content")
	buf, err := appendBlocks(w.buf, b.Content)
	if err != nil {
		w.fail("content", err)
		return
	}
	w.buf = buf
	if b.StructuredContent != nil {
		w.raw("structuredContent", b.StructuredContent)
	}
	if b.IsError {
		w.buf = append(w.buf, `,"isError":true`...)
	}
	w.close(nil, b.Meta)
}

func (w *writer) icons(icons []Icon) {
	w.name("icons")
	sep := byte('[')
	for _, icon := range icons {
		w.buf = append(w.buf, sep)
		w.buf = append(w.buf, `{"src":`...)
		w.quote(icon.Src)
		w.optional("mimeType", icon.MIMEType)
		if len(icon.Sizes) > 0 {
			w.name("sizes")
			quoteAll(w, icon.Sizes)
		}
		w.optional("theme", icon.Theme)
		w.buf = append(w.buf, '}')
		sep = ','
	}
	w.buf = append(w.buf, ']')
}

// writer appends the members of one block. The first error stays.
type writer struct {
	buf []byte
	typ string
	err error
}

func (w *writer) fail(member string, err error) {
	if w.err == nil {
		w.err = &Error{Type: w.typ, Member: member, Err: err}
	}
}

func (w *writer) open(typ string) {
	w.typ = typ
	w.buf = append(w.buf, `{"type":"`...)
	w.buf = append(w.buf, typ...)
	w.buf = append(w.buf, '"')
}

func (w *writer) name(member string) {
	w.buf = append(w.buf, ',', '"')
	w.buf = append(w.buf, member...)
	w.buf = append(w.buf, '"', ':')
}

func (w *writer) quote(s string) {
	// The error reports invalid UTF-8, which has been replaced by U+FFFD.
	w.buf, _ = jsontext.AppendQuote(w.buf, s)
}

func quoteAll[S ~string](w *writer, list []S) {
	sep := byte('[')
	for _, s := range list {
		w.buf = append(w.buf, sep)
		w.quote(string(s))
		sep = ','
	}
	w.buf = append(w.buf, ']')
}

func (w *writer) str(member, s string) {
	w.name(member)
	w.quote(s)
}

func (w *writer) optional(member, s string) {
	if s != "" {
		w.str(member, s)
	}
}

func (w *writer) blob(member string, data []byte) {
	w.name(member)
	w.buf = append(w.buf, '"')
	w.buf = base64.StdEncoding.AppendEncode(w.buf, data)
	w.buf = append(w.buf, '"')
}

// raw writes a JSON value that was made elsewhere, made compact; it is not
// trusted to be valid. An empty member writes the value alone.
func (w *writer) raw(member string, v []byte) {
	if member != "" {
		w.name(member)
	}
	buf, err := jsontext.AppendFormat(w.buf, v)
	if err != nil {
		w.fail(member, errNotJSON)
		return
	}
	w.buf = buf
}

func (w *writer) object(member string, v []byte) {
	if jsontext.Value(v).Kind() != '{' {
		w.fail(member, errNotObject)
		return
	}
	w.raw(member, v)
}

// close writes the members every block may have, and the closing brace.
func (w *writer) close(a *Annotations, meta []byte) {
	if a != nil {
		w.annotations(a)
	}
	if meta != nil {
		w.object("_meta", meta)
	}
	w.buf = append(w.buf, '}')
}

func (w *writer) annotations(a *Annotations) {
	w.name("annotations")
	start := len(w.buf)
	if len(a.Audience) > 0 {
		w.name("audience")
		quoteAll(w, a.Audience)
	}
	if a.Priority != nil {
		// Written so that NaN fails as well.
		if !(*a.Priority >= 0 && *a.Priority <= 1) {
			w.fail("annotations", errPriority)
			return
		}
		w.name("priority")
		w.buf = strconv.AppendFloat(w.buf, *a.Priority, 'f', -1, 64)
	}
	w.optional("lastModified", a.LastModified)
	if len(w.buf) == start {
		w.buf = append(w.buf, '{')
	} else {
		w.buf[start] = '{' // instead of the first member's comma
	}
	w.buf = append(w.buf, '}')
}
