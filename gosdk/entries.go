package gosdk

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// entries are what the server's lists show of the sagas.
type entries struct {
	tools     []*mcp.Tool
	prompts   []*mcp.Prompt
	resources []*mcp.Resource
	templates []*mcp.ResourceTemplate
}

func (m *Mounted) entries() (*entries, error) {
	e := new(entries)
	if err := decode(&e.tools, m.server.Entries("tools/list")); err != nil {
		return nil, err
	}
	// The SDK reads schemas into maps, which forget the order of properties.
	for i, t := range m.server.Tools().Of(engine.KindTool) {
		e.tools[i].InputSchema = t.InputSchema
		if t.OutputSchema != nil {
			e.tools[i].OutputSchema = t.OutputSchema
		}
	}
	if err := decode(&e.prompts, m.server.Entries("prompts/list")); err != nil {
		return nil, err
	}
	if err := decode(&e.resources, m.server.Entries("resources/list")); err != nil {
		return nil, err
	}
	if err := decode(&e.templates, m.server.Entries("resources/templates/list")); err != nil {
		return nil, err
	}
	m.plain = make(map[string]bool)
	for _, t := range m.server.Tools().Of(engine.KindTool) {
		var schema struct {
			Type string `json:"type"`
		}
		if t.OutputSchema != nil && (json.Unmarshal(t.OutputSchema, &schema) != nil || schema.Type != "object") {
			m.plain[t.Name] = true
		}
	}
	m.prompts, m.resources = make(map[string]bool), make(map[string]bool)
	for _, t := range m.server.Tools().Of(engine.KindPrompt) {
		m.prompts[t.Name] = true
	}
	for _, t := range m.server.Tools().Of(engine.KindResource) {
		m.resources[t.Resource.URI] = true
	}
	return e, nil
}

func decode[T any](into *[]*T, raw []json.RawMessage) error {
	for _, r := range raw {
		v := new(T)
		if err := json.Unmarshal(r, v); err != nil {
			return err
		}
		*into = append(*into, v)
	}
	return nil
}

// add registers the entries. The SDK panics about those that it does not take.
func (e *entries) add(s *mcp.Server, m *Mounted) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("gosdk: the SDK does not take a definition: %v", v)
		}
	}()
	for _, t := range e.tools {
		s.AddTool(t, m.callTool)
	}
	for _, p := range e.prompts {
		s.AddPrompt(p, m.getPrompt)
	}
	for _, r := range e.resources {
		s.AddResource(r, m.readResource)
	}
	for _, t := range e.templates {
		s.AddResourceTemplate(t, m.readResource)
	}
	return nil
}
