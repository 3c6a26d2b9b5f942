package dialect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
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
	for _, t := range tools.List() {
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

// maxCompletions is what a completion may hold (MCP, server/utilities/completion).
const maxCompletions = 100

// Completes reports whether anything has suggestions for its arguments.
func (h *Host) Completes() bool {
	has := func(t *engine.Program) bool { return len(t.Complete) > 0 }
	return slices.ContainsFunc(h.Tools.Of(engine.KindPrompt), has) || slices.ContainsFunc(h.Tools.Of(engine.KindResource), has)
}

// completeParams are the parameters of completion/complete.
type completeParams struct {
	Ref struct {
		Type string `json:"type"`
		Name string `json:"name"`
		URI  string `json:"uri"`
	} `json:"ref"`
	Argument struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"argument"`
	Context struct {
		Arguments map[string]string `json:"arguments"`
	} `json:"context"`
}

// completion is the result's member of that name.
type completion struct {
	Values  []string `json:"values"`
	Total   int      `json:"total"`
	HasMore bool     `json:"hasMore"`
}

// Complete answers completion/complete: it suggests values for an argument of a prompt
// or a resource template.
func (h *Host) Complete(ctx context.Context, params jsontext.Value) (json.RawMessage, error) {
	var p completeParams
	if rerr := wire.DecodeParams(params, &p); rerr != nil {
		return nil, rerr
	}
	found, err := h.suggest(ctx, &p)
	if err != nil {
		return nil, err
	}
	return wire.Marshal(map[string]*completion{"completion": found})
}

func (h *Host) suggest(ctx context.Context, p *completeParams) (*completion, error) {
	var t *engine.Program
	switch p.Ref.Type {
	case "ref/prompt":
		t = h.Tools.Find(engine.KindPrompt, p.Ref.Name)
	case "ref/resource":
		for _, r := range h.Tools.Of(engine.KindResource) {
			if r.Resource.URI == p.Ref.URI {
				t = r
			}
		}
	}
	if t == nil {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.ref is not a prompt or a resource template of this server")
	}
	var schema struct {
		Properties map[string]jsontext.Value `json:"properties"`
	}
	if jsonv2.Unmarshal(t.InputSchema, &schema) != nil || schema.Properties[p.Argument.Name] == nil {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.argument.name is not an argument of it")
	}
	c := &completion{Values: []string{}}
	suggest := t.Complete[p.Argument.Name]
	if suggest == nil {
		return c, nil
	}
	var values []string
	err := h.Turns.Protect(ctx, "completion/complete", t.Name, func(ctx context.Context) (err error) {
		values, err = suggest(ctx, p.Argument.Value, p.Context.Arguments)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Total = len(values)
	c.HasMore = len(values) > maxCompletions
	c.Values = append(c.Values, values[:min(len(values), maxCompletions)]...)
	return c, nil
}

// Capabilities is MCP's ClientCapabilities, as far as steps need it. What is declared is
// an object; what else is in it does not matter.
type Capabilities struct {
	Elicitation, Form, URL   bool
	Sampling, Tools, Context bool
	Roots                    bool
}

// ReadCapabilities takes a ClientCapabilities object apart, which must be valid JSON. If
// it is not of MCP's form, ok is false and pointer says where.
func ReadCapabilities(object jsontext.Value) (c Capabilities, pointer string, ok bool) {
	if object.Kind() != '{' {
		return c, "", false
	}
	for name, v := range jsonview.Members(object) {
		v := jsontext.Value(v)
		switch string(name) {
		case "elicitation":
			c.Elicitation, c.Form, c.URL = declared(v), declares(v, "form"), declares(v, "url")
		case "sampling":
			c.Sampling, c.Tools, c.Context = declared(v), declares(v, "tools"), declares(v, "context")
		case "roots":
			c.Roots = declared(v)
			continue // whatever else it is, it declares nothing
		case "extensions":
		default:
			continue
		}
		if !declared(v) && v.Kind() != 'n' {
			return c, "/" + string(name), false
		}
	}
	return c, "", true
}

func declared(v jsontext.Value) bool { return v.Kind() == '{' }

func declares(object jsontext.Value, name string) bool {
	return declared(object) && declared(jsonview.Get(object, name))
}

// Features translates declared capabilities. Elicitation without a mode means
// forms (MCP 2025-11-25 and later, client/elicitation, capabilities).
func (c *Capabilities) Features() steps.Features {
	return steps.Features{
		Forms: c.Elicitation && (c.Form || !c.URL), Links: c.URL,
		Sampling: c.Sampling, SamplingTools: c.Tools, SamplingContext: c.Context, Roots: c.Roots,
	}
}

// RequiredCapabilities is the ClientCapabilities object that declares features:
// the data of the error -32021 (MCP 2026-07-28, basic/index).
func RequiredCapabilities(f steps.Features) json.RawMessage {
	type object map[string]any
	need := object{}
	put := func(have steps.Features, path ...string) {
		if !f.Has(have) {
			return
		}
		at := need
		for _, name := range path {
			next, ok := at[name].(object)
			if !ok {
				next = object{}
				at[name] = next
			}
			at = next
		}
	}
	put(steps.Features{Forms: true}, "elicitation", "form")
	put(steps.Features{Links: true}, "elicitation", "url")
	put(steps.Features{Sampling: true}, "sampling")
	put(steps.Features{SamplingTools: true}, "sampling", "tools")
	put(steps.Features{SamplingContext: true}, "sampling", "context")
	put(steps.Features{Roots: true}, "roots")
	raw, err := json.Marshal(need)
	if err != nil {
		return json.RawMessage("{}") // maps of maps always encode
	}
	return raw
}
