package gosdk

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	m.tools, m.prompts, m.resources = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	listed := m.server.Entries("tools/list")
	if err := decode(&e.tools, listed); err != nil {
		return nil, err
	}
	for i, t := range e.tools {
		// The SDK reads schemas into maps, which forget the order of properties.
		var as struct {
			InputSchema, OutputSchema json.RawMessage
		}
		var schema struct{ Type string }
		if err := json.Unmarshal(listed[i], &as); err != nil {
			return nil, err
		}
		t.InputSchema = as.InputSchema
		if as.OutputSchema != nil {
			t.OutputSchema = as.OutputSchema
		}
		m.tools[t.Name] = as.OutputSchema != nil && (json.Unmarshal(as.OutputSchema, &schema) != nil || schema.Type != "object")
	}
	if err := decode(&e.prompts, m.server.Entries("prompts/list")); err != nil {
		return nil, err
	}
	for _, p := range e.prompts {
		m.prompts[p.Name] = true
	}
	if err := decode(&e.resources, m.server.Entries("resources/list")); err != nil {
		return nil, err
	}
	for _, r := range e.resources {
		m.resources[r.URI] = true
	}
	if err := decode(&e.templates, m.server.Entries("resources/templates/list")); err != nil {
		return nil, err
	}
	for _, r := range e.templates {
		m.resources[r.URITemplate] = true
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
