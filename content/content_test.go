package content_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	json2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
)

// cases pairs each kind of block with its JSON.
var cases = []struct {
	name  string
	block content.Block
	json  string
}{
	{"text", content.Textf("it's <%s> & more", "b"), `{"type":"text","text":"it's <b> & more"}`},
	{"empty text", content.Text{}, `{"type":"text","text":""}`},
	{"annotated", content.Text{Text: "x", Annotations: &content.Annotations{
		Audience: []content.Role{content.User, content.Assistant}, Priority: new(0.5), LastModified: "2026-07-28T15:00:58Z",
	}, Meta: json.RawMessage(`{"a":1}`)},
		`{"type":"text","text":"x","annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2026-07-28T15:00:58Z"},"_meta":{"a":1}}`},
	{"empty annotations", content.Text{Annotations: &content.Annotations{}}, `{"type":"text","text":"","annotations":{}}`},
	{"image", content.Image{Data: []byte{0xfb, 0xff, 1}, MIMEType: "image/png"}, `{"type":"image","data":"+/8B","mimeType":"image/png"}`},
	{"audio", content.Audio{Data: []byte("a"), MIMEType: "audio/wav"}, `{"type":"audio","data":"YQ==","mimeType":"audio/wav"}`},
	{"resource link", content.ResourceLink{URI: "file:///a", Name: "a", Title: "A", Description: "d", MIMEType: "text/plain", Size: new(int64(3)),
		Icons: []content.Icon{{Src: "https://x/i", MIMEType: "image/png", Sizes: []string{"any"}, Theme: "dark"}, {Src: "https://x/j"}}},
		`{"type":"resource_link","uri":"file:///a","name":"a","title":"A","description":"d","mimeType":"text/plain","size":3,"icons":[{"src":"https://x/i","mimeType":"image/png","sizes":["any"],"theme":"dark"},{"src":"https://x/j"}]}`},
	{"text resource", content.EmbeddedResource{URI: "file:///a", MIMEType: "text/plain", Text: "hi", ContentsMeta: json.RawMessage(`{}`)},
		`{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"hi","_meta":{}}}`},
	{"empty blob resource", content.EmbeddedResource{URI: "file:///a", Blob: []byte{}, Annotations: &content.Annotations{Priority: new(1.0)}},
		`{"type":"resource","resource":{"uri":"file:///a","blob":""},"annotations":{"priority":1}}`},
	{"tool use", content.ToolUse{ID: "1", Name: "n", Input: json.RawMessage(`{"b":1,"a":2}`)}, `{"type":"tool_use","id":"1","name":"n","input":{"b":1,"a":2}}`},
	{"tool result", content.ToolResult{ToolUseID: "1", Content: content.Blocks{content.Text{Text: "t"}}, StructuredContent: json.RawMessage(`null`), IsError: true},
		`{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"t"}],"structuredContent":null,"isError":true}`},
	{"empty tool result", content.ToolResult{ToolUseID: "1", Content: content.Blocks{}}, `{"type":"tool_result","toolUseId":"1","content":[]}`},
	{"unknown", content.Unknown{Raw: json.RawMessage(`{"type":"video","frames":[1,2.50]}`)}, `{"type":"video","frames":[1,2.50]}`},
}

func marshalBoth(t testing.TB, v any) string {
	t.Helper()
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	two, err := json2.Marshal(v)
	require.NoError(t, err)
	require.Equal(t, string(bytes.TrimSuffix(one.Bytes(), []byte("\n"))), string(two), "encoding/json and v2 differ")
	return string(two)
}

func TestBlocksAreWrittenAndReadBack(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.json, marshalBoth(t, c.block))
			assert.Equal(t, "["+c.json+"]", marshalBoth(t, content.Blocks{c.block}))
			got, err := content.ParseBlock([]byte(c.json))
			require.NoError(t, err)
			assert.Equal(t, c.block, got)

			var one, two struct{ Content content.Blocks }
			doc := []byte(`{"Content":[` + c.json + `]}`)
			require.NoError(t, json.Unmarshal(doc, &one))
			require.NoError(t, json2.Unmarshal(doc, &two))
			assert.Equal(t, content.Blocks{c.block}, one.Content)
			assert.Equal(t, one, two)
			assert.Equal(t, string(doc), marshalBoth(t, one))
		})
	}
}

func parseBlocks(data []byte) (b content.Blocks, err error) {
	err = b.UnmarshalJSON(data)
	return b, err
}

func parseSampling(data []byte) (b content.Blocks, err error) {
	err = b.UnmarshalSampling(data)
	return b, err
}

func TestListsAreNeverNull(t *testing.T) {
	assert.Equal(t, `{"Content":[]}`, marshalBoth(t, struct{ Content content.Blocks }{}))
	var b content.Blocks
	require.NoError(t, json.Unmarshal([]byte("null"), &b))
	assert.Empty(t, b)
	raw, err := content.ToolUse{}.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `{"type":"tool_use","id":"","name":"","input":{}}`, string(raw))
}

func TestPointersAreWrittenToo(t *testing.T) {
	list := content.Blocks{&content.Text{Text: "a"}, &content.Image{}, &content.Audio{}, &content.ResourceLink{}, &content.EmbeddedResource{},
		&content.ToolUse{}, &content.ToolResult{}, &content.Unknown{Raw: json.RawMessage(`{"type":"x"}`)}}
	raw, err := list.AppendJSON(nil)
	require.NoError(t, err)
	got, err := parseBlocks(raw)
	require.NoError(t, err)
	require.Len(t, got, len(list))
	for i := range got {
		assert.Equal(t, list[i].BlockType(), got[i].BlockType())
	}
	assert.Equal(t, "a", list.Text())
}

func TestConcreteTypesUnmarshal(t *testing.T) {
	var v struct {
		T content.Text
		I content.Image
		A content.Audio
		L content.ResourceLink
		R content.EmbeddedResource
		U content.ToolUse
		V content.ToolResult
		X content.Unknown
	}
	v.V.Content = content.Blocks{}
	v.U.Input = json.RawMessage("{}")
	v.X.Raw = json.RawMessage(`{"type":"x"}`)
	v.I.Data, v.A.Data = []byte{}, []byte{}
	raw := marshalBoth(t, v)
	got := v
	require.NoError(t, json.Unmarshal([]byte(raw), &got))
	assert.Equal(t, v, got)
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"type":"image","data":"","mimeType":""}`), &v.T), "image block: is of another type")
}

func TestSamplingContent(t *testing.T) {
	one := content.Blocks{content.Text{Text: "a"}}
	raw, err := one.AppendSampling([]byte("="))
	require.NoError(t, err)
	assert.Equal(t, `={"type":"text","text":"a"}`, string(raw))
	two := append(one, content.Text{Text: "b"})
	raw, err = two.AppendSampling(nil)
	require.NoError(t, err)
	for _, doc := range []string{`{"type":"text","text":"a"}`, ` {"type":"text","text":"a"}`, `[{"type":"text","text":"a"}]`} {
		got, err := parseSampling([]byte(doc))
		require.NoError(t, err, doc)
		assert.Equal(t, one, got)
	}
	got, err := parseSampling(raw)
	require.NoError(t, err)
	assert.Equal(t, two, got)
	assert.Equal(t, "a\nb", got.Text())
}

func TestUnreadable(t *testing.T) {
	for doc, want := range map[string]string{
		``:                                    "content block: is not valid JSON",
		`[]`:                                  "content block: is not a JSON object",
		`{}`:                                  `content block: member "type": is missing`,
		`{"type":""}`:                         `content block: member "type": is empty`,
		`{"type":1}`:                          `content block: member "type": is not a string`,
		`{"type":"text"}`:                     `text block: member "text": is missing`,
		`{"type":"text","text":"a","text":1}`: "content block: is not valid JSON",
		`{"type":"text","text":null}`:         `text block: member "text": is missing`,
		`{"type":"text","text":"\ud800"}`:     "content block: is not valid JSON",
		`{"type":"image","data":"?","mimeType":""}`:                               `image block: member "data": illegal base64 data at input byte 0`,
		`{"type":"audio","data":"","mimeType":1}`:                                 `audio block: member "mimeType": is not a string`,
		`{"type":"resource"}`:                                                     `resource block: member "resource": is missing`,
		`{"type":"resource","resource":{"uri":"a"}}`:                              `resource block: member "resource.text": is missing`,
		`{"type":"resource_link","uri":"a","name":"b","size":1.5}`:                `resource_link block: member "size": is not an integer`,
		`{"type":"resource_link","uri":"a","name":"b","title":1}`:                 `resource_link block: member "title": is not a string`,
		`{"type":"resource_link","uri":"a","name":"b","icons":1}`:                 `resource_link block: member "icons": is not a JSON array`,
		`{"type":"resource_link","uri":"a","name":"b","icons":[{}]}`:              `resource_link block: member "icons": resource_link block: member "src": is missing`,
		`{"type":"tool_use","id":"a","name":"b","input":1}`:                       `tool_use block: member "input": is not a JSON object`,
		`{"type":"tool_result","toolUseId":"a"}`:                                  `tool_result block: member "content": is missing`,
		`{"type":"tool_result","toolUseId":"a","content":[1]}`:                    `tool_result block: member "content": content block: is not a JSON object`,
		`{"type":"tool_result","toolUseId":"a","content":[],"isError":1}`:         `tool_result block: member "isError": is not a boolean`,
		`{"type":"text","text":"","annotations":1}`:                               `text block: member "annotations": is not a JSON object`,
		`{"type":"text","text":"","annotations":{"priority":2}}`:                  `text block: member "annotations": is not between 0 and 1`,
		`{"type":"text","text":"","annotations":{"priority":"2"}}`:                `text block: member "annotations.priority": is not a number`,
		`{"type":"text","text":"","annotations":{"audience":[1]}}`:                `text block: member "annotations.audience.0": is not a string`,
		`{"type":"text","text":"","annotations":{"audience":1,"lastModified":1}}`: `text block: member "annotations.audience": is not a JSON array`,
		`{"type":"text","text":"","_meta":1}`:                                     `text block: member "_meta": is not a JSON object`,
	} {
		_, err := content.ParseBlock([]byte(doc))
		require.EqualError(t, err, want, doc)
		assert.Error(t, errors.Unwrap(err))
	}
	_, err := parseBlocks([]byte(`{}`))
	assert.EqualError(t, err, "content block: is not a JSON array")
	_, err = parseSampling([]byte(`{"a"`))
	assert.EqualError(t, err, "content block: is not valid JSON")
}

func TestUnwritable(t *testing.T) {
	for want, block := range map[string]content.Block{
		"content block: is nil":                                            nil,
		`tool_use block: member "input": is not a JSON object`:             content.ToolUse{Input: json.RawMessage(`[]`)},
		`tool_use block: member "input": is not valid JSON`:                content.ToolUse{Input: json.RawMessage(`{"a"`)},
		`text block: member "_meta": is not a JSON object`:                 content.Text{Meta: json.RawMessage(`1`)},
		`tool_result block: member "structuredContent": is not valid JSON`: content.ToolResult{StructuredContent: json.RawMessage(`}`)},
		`tool_result block: member "content": content block: is nil`:       content.ToolResult{Content: content.Blocks{(*content.Text)(nil)}},
		`text block: member "annotations": is not between 0 and 1`:         content.Text{Annotations: &content.Annotations{Priority: new(-1.0)}},
		`content block: member "type": is empty`:                           content.Unknown{},
		`image block: member "annotations": is not between 0 and 1`:        content.Image{Annotations: &content.Annotations{Priority: new(2.0)}},
		`resource block: member "resource._meta": is not a JSON object`:    content.EmbeddedResource{ContentsMeta: json.RawMessage(`""`)},
	} {
		dst, err := content.Blocks{block}.AppendJSON([]byte("kept"))
		assert.EqualError(t, err, want)
		assert.Equal(t, "kept", string(dst))
		_, err = content.Blocks{block}.AppendSampling(nil)
		assert.Error(t, err)
		_, err = json2.Marshal(content.Blocks{block})
		assert.Error(t, err)
	}
}

// A peer's odd but valid writing is understood.
func TestLenience(t *testing.T) {
	got, err := content.ParseBlock([]byte(` { "text" : "\u0061" , "extra":[], "annotations":null, "_meta":null, "type":"\u0074ext" } `))
	require.NoError(t, err)
	assert.Equal(t, content.Text{Text: "a"}, got)
	got, err = content.ParseBlock([]byte(`{"type":"resource_link","uri":"a","name":"b","size":3e1,"title":null,"icons":null}`))
	require.NoError(t, err)
	assert.Equal(t, content.ResourceLink{URI: "a", Name: "b", Size: new(int64(30))}, got)
	raw, err := content.Text{Text: "a\xffb"}.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `{"type":"text","text":"a�b"}`, string(raw))
}

func FuzzParseBlocks(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte("[" + c.json + "]"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		blocks, err := parseSampling(data)
		if err != nil {
			return
		}
		raw := marshalBoth(t, blocks)
		again, err := parseBlocks([]byte(raw))
		require.NoError(t, err)
		require.Equal(t, raw, marshalBoth(t, again))
		_ = blocks.Text()
	})
}

func FuzzTextRoundTrip(f *testing.F) {
	f.Add("it's <b>\u2028", []byte{0}, "image/png")
	f.Fuzz(func(t *testing.T, text string, data []byte, mime string) {
		if data == nil {
			data = []byte{}
		}
		in := content.Blocks{content.Text{Text: text}, content.Image{Data: data, MIMEType: mime}, content.EmbeddedResource{Blob: data}}
		out, err := parseBlocks([]byte(marshalBoth(t, in)))
		require.NoError(t, err)
		require.Equal(t, marshalBoth(t, in), marshalBoth(t, out))
		require.Equal(t, data, out[1].(content.Image).Data)
	})
}

func BenchmarkAppendText(b *testing.B) {
	list := content.Blocks{content.Text{Text: "Deployment to production initiated successfully based on confirmation."}}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = list.AppendJSON(buf[:0])
	}
}

func BenchmarkMarshalV2(b *testing.B) {
	list := content.Blocks{content.Text{Text: "Deployment to production initiated successfully based on confirmation."}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = json2.Marshal(list)
	}
}

func BenchmarkParseText(b *testing.B) {
	raw := []byte(`{"type":"text","text":"Yes, all systems are green."}`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = parseSampling(raw)
	}
}
