package dialect

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Catalogue holds what lists show, encoded once. An entry is the same for
// everybody, so lists may be cached by anybody.
type Catalogue struct {
	Tools, Prompts, Resources, Templates []json.RawMessage
	// PlainTools are the tools for clients before 2026-07-28, which take no
	// output schema but an object's (SEP-2106).
	PlainTools []json.RawMessage
	// BareTools are those for clients before 2025-06-18, which take none.
	BareTools []json.RawMessage
	pageSize  int
}

// listedTool is MCP's Tool.
type listedTool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitzero"`
	Description  string          `json:"description,omitzero"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitzero"`
	Annotations  json.RawMessage `json:"annotations,omitzero"`
	Meta         map[string]any  `json:"_meta,omitzero"`
}

// sagaMark is the value of [SagaMarker] in a tool's _meta.
type sagaMark struct {
	// Method is how the tool is called as a saga.
	Method string `json:"method"`
	// Revision is the tool's revision.
	Revision uint32 `json:"revision"`
	// Steps are the ids of the questions that the tool may ask.
	Steps []string `json:"steps"`
}

// listedPrompt is MCP's Prompt.
type listedPrompt struct {
	Name        string                  `json:"name"`
	Title       string                  `json:"title,omitzero"`
	Description string                  `json:"description,omitzero"`
	Arguments   []engine.PromptArgument `json:"arguments,omitzero"`
}

// listedResource is MCP's Resource or ResourceTemplate.
type listedResource struct {
	URI         string `json:"uri,omitzero"`
	URITemplate string `json:"uriTemplate,omitzero"`
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	MIMEType    string `json:"mimeType,omitzero"`
}

// NewCatalogue encodes what there is.
func NewCatalogue(tools *engine.Registry, pageSize int) (*Catalogue, error) {
	c := &Catalogue{pageSize: pageSize}
	add := func(list *[]json.RawMessage, v any) error {
		raw, err := wire.Marshal(v)
		*list = append(*list, raw)
		return err
	}
	for _, t := range tools.Of(engine.KindTool) {
		entry := listedTool{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations, nil}
		if len(t.Questions) > 0 {
			mark := sagaMark{Method: "tools/callSaga", Revision: t.Revision}
			for _, q := range t.Questions {
				mark.Steps = append(mark.Steps, q.StepID())
			}
			entry.Meta = map[string]any{SagaMarker: mark}
		}
		if err := add(&c.Tools, entry); err != nil {
			return nil, err
		}
		if !objectSchema(entry.OutputSchema) {
			entry.OutputSchema = nil
		}
		if err := add(&c.PlainTools, entry); err != nil {
			return nil, err
		}
		entry.OutputSchema = nil
		if err := add(&c.BareTools, entry); err != nil {
			return nil, err
		}
	}
	for _, t := range tools.Of(engine.KindPrompt) {
		if err := add(&c.Prompts, listedPrompt{t.Name, t.Title, t.Description, t.Prompt.Arguments}); err != nil {
			return nil, err
		}
	}
	for _, t := range tools.Of(engine.KindResource) {
		entry := listedResource{URI: t.Resource.URI, Name: t.Name, Title: t.Title, Description: t.Description, MIMEType: t.Resource.MIMEType}
		list := &c.Resources
		if t.Resource.Template {
			entry.URI, entry.URITemplate = "", entry.URI
			list = &c.Templates
		}
		if err := add(list, entry); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func objectSchema(schema json.RawMessage) bool {
	var s struct {
		Type string `json:"type"`
	}
	return schema == nil || json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// Page returns a part of a list and the cursor of the next one, or "". A cursor
// is the place to go on from; the empty one is the list's beginning.
func (c *Catalogue) Page(list []json.RawMessage, cursor string) (items []json.RawMessage, next string, rerr *wire.Error) {
	from := 0
	if cursor != "" {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
		if err == nil {
			from, err = strconv.Atoi(string(raw))
		}
		if err != nil || from <= 0 || from >= len(list) || encodeCursor(from) != cursor {
			return nil, "", wire.NewError(wire.CodeInvalidParams, "the cursor is not one that this list gave")
		}
	}
	to := min(from+c.pageSize, len(list))
	if to < len(list) {
		next = encodeCursor(to)
	}
	return list[from:to], next, nil
}

func encodeCursor(at int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(at)))
}

// AppendList writes the result of a list method without its closing brace, for
// a dialect to add what its revision has besides.
func AppendList(name string, items []json.RawMessage, next string) []byte {
	b := append([]byte(`{"`), name...)
	b = append(b, `":[`...)
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	b = append(b, ']')
	if next != "" {
		b = append(b, `,"nextCursor":`...)
		b = wire.AppendString(b, next)
	}
	return b
}
