package server

import (
	"context"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// maxCompletions is what a completion may hold (MCP, server/utilities/completion).
const maxCompletions = 100

// completes reports whether anything has suggestions for its arguments.
func (s *Server) completes() bool {
	has := func(t *engine.Program) bool { return len(t.Complete) > 0 }
	return slices.ContainsFunc(s.tools.Of(engine.KindPrompt), has) || slices.ContainsFunc(s.tools.Of(engine.KindResource), has)
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

// completion suggests values for an argument of a prompt or a resource template.
// It is the same in every dialect.
func (s *Server) completion(ctx context.Context, p *completeParams) (*completion, error) {
	var t *engine.Program
	switch p.Ref.Type {
	case "ref/prompt":
		t = s.tools.Find(engine.KindPrompt, p.Ref.Name)
	case "ref/resource":
		for _, r := range s.tools.Of(engine.KindResource) {
			if r.Resource.URI == p.Ref.URI {
				t = r
			}
		}
	}
	if t == nil {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "params.ref is not a prompt or a resource template of this server")
	}
	var schema struct {
		Properties map[string]jsontext.Value `json:"properties"`
	}
	if jsonv2.Unmarshal(t.InputSchema, &schema) != nil || schema.Properties[p.Argument.Name] == nil {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "params.argument.name is not an argument of it")
	}
	c := &completion{Values: []string{}}
	suggest := t.Complete[p.Argument.Name]
	if suggest == nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.TurnTimeout)
	defer cancel()
	var values []string
	err := protect(func() (err error) {
		values, err = suggest(ctx, p.Argument.Value, p.Context.Arguments)
		return err
	})
	if err != nil {
		return nil, &turnError{tool: t.Name, err: err}
	}
	c.Total = len(values)
	c.HasMore = len(values) > maxCompletions
	c.Values = append(c.Values, values[:min(len(values), maxCompletions)]...)
	return c, nil
}

// complete answers completion/complete.
func (d *stateless) complete(ctx context.Context, r *statelessRequest) ([]byte, error) {
	var p completeParams
	if fail := decodeParams(r.params, &p); fail != nil {
		return nil, fail
	}
	c, err := d.completion(ctx, &p)
	if err != nil {
		return nil, err
	}
	b, err := marshal(map[string]any{"completion": c})
	if err != nil {
		return nil, err
	}
	return d.finish(opened(b), resultComplete), nil
}
