package dialect

import (
	"context"
	"encoding/json"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

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
