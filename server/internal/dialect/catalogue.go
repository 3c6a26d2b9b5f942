package dialect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Catalogue holds what lists show, encoded once. An entry is the same for
// everybody, so lists may be cached by anybody, unless callers see some of it only: see [Host.List].
type Catalogue struct {
	// Lists are the lists by their methods, such as "tools/list". Those of nothing are nil.
	Lists map[string][]Entry
	// PlainTools are the tools for clients before 2026-07-28, which take no
	// output schema but an object's (SEP-2106).
	PlainTools []Entry
	// BareTools are those for clients before 2025-06-18, which take none.
	BareTools []Entry
	pageSize  int
}

// Entry is an entry of a list, and what it is of: nil is the server's own.
type Entry struct {
	JSON    json.RawMessage
	Program *engine.Program
}

// listMembers are the members of results that hold a list, by method.
var listMembers = map[string]string{
	"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
	MethodSkills: "skills",
}

// entry is MCP's Tool, Prompt, Resource or ResourceTemplate.
type entry struct {
	URI          string                  `json:"uri,omitzero"`
	URITemplate  string                  `json:"uriTemplate,omitzero"`
	Name         string                  `json:"name"`
	Title        string                  `json:"title,omitzero"`
	Description  string                  `json:"description,omitzero"`
	MIMEType     string                  `json:"mimeType,omitzero"`
	Arguments    []engine.PromptArgument `json:"arguments,omitzero"`
	InputSchema  json.RawMessage         `json:"inputSchema,omitzero"`
	OutputSchema json.RawMessage         `json:"outputSchema,omitzero"`
	Annotations  json.RawMessage         `json:"annotations,omitzero"`
	Meta         map[string]any          `json:"_meta,omitempty"`
}

// NewCatalogue encodes what a host has.
func NewCatalogue(h *Host, pageSize int) (*Catalogue, error) {
	c := &Catalogue{pageSize: pageSize}
	tools := h.Tools
	var wrong []error
	add := func(list *[]Entry, t *engine.Program, e entry) {
		raw, err := wire.Marshal(e)
		wrong, *list = append(wrong, err), append(*list, Entry{raw, t})
	}
	var all, prompts, resources, templates []Entry
	for _, t := range tools.Of(engine.KindTool) {
		e := entry{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: listedSchema(t),
			OutputSchema: t.OutputSchema, Annotations: t.Annotations, Meta: map[string]any{},
		}
		if (len(t.Asks) > 0 || t.Yields) && t.Tasks.Mode != engine.TasksRequired {
			mark := sagaMark{Method: MethodCall, Revision: t.Revision, Steps: []string{}}
			for _, q := range t.Asks {
				if t.Outside(q.StepID()) {
					continue // which is nothing to clients
				}
				mark.Steps = append(mark.Steps, q.StepID())
			}
			e.Meta[SagaMarker] = mark
		}
		if t.Yields {
			e.OutputSchema = nil // a part does not conform to it
			e.Meta[ResumeTTLMember] = h.Turns.Codec.Options().TTL.Milliseconds()
		}
		if h.TakesKeys && t.Remembered() {
			e.Meta[KeyMember] = true
		}
		add(&all, t, e)
		if !objectSchema(e.OutputSchema) {
			e.OutputSchema = nil
		}
		add(&c.PlainTools, t, e)
		e.OutputSchema = nil
		add(&c.BareTools, t, e)
	}
	for _, t := range tools.Of(engine.KindPrompt) {
		add(&prompts, t, entry{Name: t.Name, Title: t.Title, Description: t.Description, Arguments: t.Arguments})
	}
	for _, t := range tools.Of(engine.KindResource) {
		e := entry{URI: t.Resource.URI, Name: t.Name, Title: t.Title, Description: t.Description, MIMEType: t.Resource.MIMEType}
		if t.Resource.Template {
			e.URI, e.URITemplate = "", e.URI
			add(&templates, t, e)
		} else {
			add(&resources, t, e)
		}
	}
	c.Lists = map[string][]Entry{"tools/list": all, "prompts/list": prompts, "resources/list": resources, "resources/templates/list": templates}
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
	return schema == nil || jsonview.Is(jsonview.Get(schema, "type"), "object")
}

// List answers a method that lists items, as far as the caller may see them, by pages: a cursor is the place to go on from.
// The result lacks its closing brace, for a dialect to add what its revision has besides.
func (h *Host) List(ctx context.Context, m *wire.Message, items []Entry) (open []byte, err error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if rerr := wire.DecodeParams(m.Params, &p); rerr != nil {
		return nil, rerr
	}
	if items, err = h.visible(ctx, items); err != nil {
		return nil, err
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
	to := min(from+h.Catalogue.pageSize, len(items))
	b := append([]byte(`{"`), listMembers[m.Method]...)
	b = append(b, `":[`...)
	for i, item := range items[from:to] {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item.JSON...)
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
	if h.HasSkills() {
		Extend(c, SkillsExtension)
	}
	if len(c) > 1 {
		c["logging"] = object{}
	}
	if completions && h.Completes() {
		c["completions"] = object{}
	}
	return c
}

// Extend adds an extension without settings to a server's capabilities.
func Extend(offers map[string]any, extension string) {
	extensions, _ := offers["extensions"].(map[string]any)
	if extensions == nil {
		extensions = make(map[string]any)
		offers["extensions"] = extensions
	}
	extensions[extension] = struct{}{}
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
	t, err := h.permitted(ctx, t)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.ref is not a prompt or a resource template of this server")
	}
	if jsonview.Get(t.InputSchema, "properties", p.Argument.Name) == nil {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.argument.name is not an argument of it")
	}
	var values []string
	if suggest := t.Complete[p.Argument.Name]; suggest != nil {
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

// Capabilities is MCP's ClientCapabilities, as far as it is used. What is declared is an object; what
// else is in it does not matter.
type Capabilities struct {
	// Features are what the client can be asked for. Elicitation without a mode means forms (MCP
	// 2025-11-25 and later, client/elicitation, capabilities).
	steps.Features
	// Elicitation is declared, whatever the modes.
	Elicitation bool
	// Tasks is the tasks extension, of MCP from 2026-07-28 on.
	Tasks bool
	// Apps is the extension for forms of servers in the windows of hosts, with the one kind that there is.
	Apps bool
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
		v, must := jsontext.Value(v), true
		switch string(name) {
		case "elicitation":
			c.Elicitation, c.Links = declared(v), declares(v, "url")
			c.Forms = c.Elicitation && (declares(v, "form") || !c.Links)
		case "sampling":
			c.Sampling, c.SamplingTools, c.SamplingContext = declared(v), declares(v, "tools"), declares(v, "context")
		case "extensions":
			c.Tasks, c.Apps = declares(v, TasksExtension), showsApps(jsonview.Get(v, AppsExtension))
		case "roots":
			c.Roots, must = declared(v), false // whatever else it is, it declares nothing
		case "resumableRequests":
			c.Resumable, must = c.Resumable || declared(v), false
		case "experimental":
			c.Resumable, c.Experimental, must = c.Resumable || declares(v, "resumableRequests"), v, false
		default:
			continue
		}
		if must && !declared(v) && v.Kind() != 'n' {
			return c, "/" + string(name), false
		}
	}
	return c, "", true
}

// AppsExtension is the name of the extension MCP Apps, and AppType the type of its documents. AppURI is ours.
const (
	AppsExtension = "io.modelcontextprotocol/ui"
	AppType       = "text/html;profile=mcp-app"
	AppURI        = "ui://mcpsaga/form"
)

// showsApps reports whether a client declares that it shows such documents.
func showsApps(extension jsontext.Value) bool {
	types, _ := jsonview.Strings(jsonview.Get(extension, "mimeTypes"))
	return slices.Contains(types, AppType)
}

func declared(v jsontext.Value) bool { return v.Kind() == '{' }

func declares(object jsontext.Value, name string) bool {
	return declared(object) && declared(jsonview.Get(object, name))
}

// RequiredCapabilities is the data of the error -32021: an object with the
// ClientCapabilities object that declares features (MCP 2026-07-28, basic/index).
func RequiredCapabilities(f steps.Features) json.RawMessage {
	need := make(map[string]map[string]struct{})
	for name := range strings.SplitSeq(f.String(), ", ") {
		name, within, _ := strings.Cut(name, ".")
		if name != "" && need[name] == nil {
			need[name] = make(map[string]struct{})
		}
		if within != "" {
			need[name][within] = struct{}{}
		}
	}
	raw, _ := json.Marshal(map[string]any{"requiredCapabilities": need}) // maps of maps always encode
	return raw
}
