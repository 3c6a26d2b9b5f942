package dialect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Catalogue holds what lists show, encoded once. An entry is the same for
// everybody, so lists may be cached by anybody.
type Catalogue struct {
	// Lists are the lists by their methods, such as "tools/list". Those of nothing are nil.
	Lists map[string][]json.RawMessage
	// PlainTools are the tools for clients before 2026-07-28, which take no
	// output schema but an object's (SEP-2106).
	PlainTools []json.RawMessage
	// BareTools are those for clients before 2025-06-18, which take none.
	BareTools []json.RawMessage
	pageSize  int
}

// listMembers are the members of results that hold a list, by method.
var listMembers = map[string]string{
	"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
}

// NewCatalogue encodes what there is, in the forms of MCP's Tool, Prompt, Resource and
// ResourceTemplate. ttl is how long a resume token is good. keys says of a tool whether it takes a key with a first call; nil is that
// none does.
func NewCatalogue(tools *engine.Registry, pageSize int, ttl time.Duration, keys func(*engine.Program) bool) (*Catalogue, error) {
	c := &Catalogue{pageSize: pageSize, Lists: make(map[string][]json.RawMessage)}
	var wrong []error
	add := func(list []json.RawMessage, v any) []json.RawMessage {
		raw, err := wire.Marshal(v)
		wrong = append(wrong, err)
		return append(list, raw)
	}
	for _, t := range tools.Of(engine.KindTool) {
		entry := struct {
			Name         string          `json:"name"`
			Title        string          `json:"title,omitzero"`
			Description  string          `json:"description,omitzero"`
			InputSchema  json.RawMessage `json:"inputSchema"`
			OutputSchema json.RawMessage `json:"outputSchema,omitzero"`
			Annotations  json.RawMessage `json:"annotations,omitzero"`
			Meta         map[string]any  `json:"_meta,omitzero"`
		}{t.Name, t.Title, t.Description, listedSchema(t), t.OutputSchema, t.Annotations, nil}
		meta := map[string]any{}
		if (len(t.Questions) > 0 || t.Yields) && t.Tasks.Mode != engine.TasksRequired {
			mark := sagaMark{Method: MethodCall, Revision: t.Revision, Steps: []string{}}
			for _, q := range t.Questions {
				mark.Steps = append(mark.Steps, q.StepID())
			}
			meta[SagaMarker] = mark
		}
		if t.Yields {
			entry.OutputSchema = nil // a part does not conform to it
			meta[ResumeTTLMember] = ttl.Milliseconds()
		}
		if keys != nil && keys(t) {
			meta[KeyMember] = true
		}
		if len(meta) > 0 {
			entry.Meta = meta
		}
		c.Lists["tools/list"] = add(c.Lists["tools/list"], entry)
		if !objectSchema(entry.OutputSchema) {
			entry.OutputSchema = nil
		}
		c.PlainTools = add(c.PlainTools, entry)
		entry.OutputSchema = nil
		c.BareTools = add(c.BareTools, entry)
	}
	for _, t := range tools.Of(engine.KindPrompt) {
		c.Lists["prompts/list"] = add(c.Lists["prompts/list"], struct {
			Name        string                  `json:"name"`
			Title       string                  `json:"title,omitzero"`
			Description string                  `json:"description,omitzero"`
			Arguments   []engine.PromptArgument `json:"arguments,omitzero"`
		}{t.Name, t.Title, t.Description, t.Prompt.Arguments})
	}
	for _, t := range tools.Of(engine.KindResource) {
		method, uri, template := "resources/list", t.Resource.URI, ""
		if t.Resource.Template {
			method, uri, template = "resources/templates/list", "", uri
		}
		c.Lists[method] = add(c.Lists[method], struct {
			URI         string `json:"uri,omitzero"`
			URITemplate string `json:"uriTemplate,omitzero"`
			Name        string `json:"name"`
			Title       string `json:"title,omitzero"`
			Description string `json:"description,omitzero"`
			MIMEType    string `json:"mimeType,omitzero"`
		}{uri, template, t.Name, t.Title, t.Description, t.Resource.MIMEType})
	}
	return c, errors.Join(wrong...)
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

func objectSchema(schema json.RawMessage) bool {
	var s struct {
		Type string `json:"type"`
	}
	return schema == nil || json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// List answers a method that lists items, by pages: a cursor is the place to go on from.
// The result lacks its closing brace, for a dialect to add what its revision has besides.
func (c *Catalogue) List(m *wire.Message, items []json.RawMessage) (open []byte, rerr *wire.Error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if rerr := wire.DecodeParams(m.Params, &p); rerr != nil {
		return nil, rerr
	}
	from := 0
	if p.Cursor != "" {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(p.Cursor)
		if err == nil {
			from, err = strconv.Atoi(string(raw))
		}
		if err != nil || from <= 0 || from >= len(items) || encodeCursor(from) != p.Cursor {
			return nil, wire.NewError(wire.CodeInvalidParams, "the cursor is not one that this list gave")
		}
	}
	to := min(from+c.pageSize, len(items))
	b := append([]byte(`{"`), listMembers[m.Method]...)
	b = append(b, `":[`...)
	for i, item := range items[from:to] {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	b = append(b, ']')
	if to < len(items) {
		b = wire.AppendString(append(b, `,"nextCursor":`...), encodeCursor(to))
	}
	return b, nil
}

func encodeCursor(at int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(at)))
}

// Offers are the server's capabilities, as every revision has them but for completions,
// which came later than the rest. What is called can log.
func (h *Host) Offers(completions bool) map[string]any {
	type object = map[string]any
	c := object{"experimental": object{SagaMarker: object{}}}
	if len(h.Tools.Of(engine.KindTool)) > 0 {
		c["tools"] = object{"listChanged": true}
	}
	if len(h.Tools.Of(engine.KindPrompt)) > 0 {
		c["prompts"] = object{"listChanged": true}
	}
	if len(h.Tools.Of(engine.KindResource)) > 0 {
		c["resources"] = object{"listChanged": true, "subscribe": true}
	}
	if len(c) > 1 {
		c["logging"] = object{}
	}
	if completions && h.Completes() {
		c["completions"] = object{}
	}
	return c
}

// maxCompletions is what a completion may hold (MCP, server/utilities/completion).
const maxCompletions = 100

// Completes reports whether anything has suggestions for its arguments.
func (h *Host) Completes() bool {
	has := func(t *engine.Program) bool { return len(t.Complete) > 0 }
	return slices.ContainsFunc(h.Tools.Of(engine.KindPrompt), has) || slices.ContainsFunc(h.Tools.Of(engine.KindResource), has)
}

// Complete answers completion/complete: it suggests values for an argument of a prompt
// or a resource template.
func (h *Host) Complete(ctx context.Context, params jsontext.Value) (json.RawMessage, error) {
	var p struct {
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
	if rerr := wire.DecodeParams(params, &p); rerr != nil {
		return nil, rerr
	}
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
	var values []string
	if suggest := t.Complete[p.Argument.Name]; suggest != nil {
		var err error
		values, err = turns.Protect(ctx, h.Turns, "completion/complete", t, func(ctx context.Context) ([]string, error) {
			return suggest(ctx, p.Argument.Value, p.Context.Arguments)
		})
		if err != nil {
			return nil, err
		}
	}
	type completion struct {
		Values  []string `json:"values"`
		Total   int      `json:"total"`
		HasMore bool     `json:"hasMore"`
	}
	shown := values[:min(len(values), maxCompletions)]
	return wire.Marshal(map[string]completion{"completion": {shown, len(values), len(shown) < len(values)}})
}

// Capabilities is MCP's ClientCapabilities, as far as steps need it. What is declared is
// an object; what else is in it does not matter.
type Capabilities struct {
	Elicitation, Form, URL   bool
	Sampling, Tools, Context bool
	Roots                    bool
	// Tasks is the tasks extension, of MCP from 2026-07-28 on.
	Tasks bool
	// Experimental are the experimental capabilities, an object if there are any.
	Experimental jsontext.Value
	// Resumable: requests can be resumed (SEP-975); declared by itself, or as an experiment.
	Resumable bool
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
			c.Tasks = declares(v, TasksExtension)
		case "resumableRequests", "experimental":
			c.Resumable = c.Resumable || string(name) == "resumableRequests" && declared(v) || declares(v, "resumableRequests")
			if string(name) == "experimental" {
				c.Experimental = v
			}
			continue // what others make of them does not matter
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

// RequiredCapabilities is the data of the error -32021: an object with the
// ClientCapabilities object that declares features (MCP 2026-07-28, basic/index).
func RequiredCapabilities(f steps.Features) json.RawMessage {
	need := make(map[string]map[string]struct{})
	put := func(needed bool, name string, within ...string) {
		if !needed {
			return
		}
		if need[name] == nil {
			need[name] = make(map[string]struct{})
		}
		for _, capability := range within {
			need[name][capability] = struct{}{}
		}
	}
	put(f.Forms, "elicitation", "form")
	put(f.Links, "elicitation", "url")
	put(f.Sampling, "sampling")
	put(f.SamplingTools, "sampling", "tools")
	put(f.SamplingContext, "sampling", "context")
	put(f.Roots, "roots")
	raw, _ := json.Marshal(map[string]any{"requiredCapabilities": need}) // maps of maps always encode
	return raw
}
