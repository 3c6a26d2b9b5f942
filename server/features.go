package server

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

// clientCapabilities is MCP's ClientCapabilities, as far as steps need it. What
// is declared is present and not null; its value does not matter.
type clientCapabilities struct {
	Elicitation *elicitationCapability    `json:"elicitation"`
	Sampling    *samplingCapability       `json:"sampling"`
	Roots       jsontext.Value            `json:"roots"`
	Extensions  map[string]jsontext.Value `json:"extensions"`
}

type elicitationCapability struct {
	Form jsontext.Value `json:"form"`
	URL  jsontext.Value `json:"url"`
}

type samplingCapability struct {
	Tools   jsontext.Value `json:"tools"`
	Context jsontext.Value `json:"context"`
}

// read takes the object apart, which must be valid JSON, and reports whether its
// members are of MCP's types.
func (c *clientCapabilities) read(object jsontext.Value) bool {
	ok := true
	for name, v := range jsonview.Members(object) {
		v := jsontext.Value(v)
		isObject := v.Kind() == '{'
		switch string(name) {
		case "elicitation":
			if isObject {
				c.Elicitation = &elicitationCapability{jsonview.Get(v, "form"), jsonview.Get(v, "url")}
			}
		case "sampling":
			if isObject {
				c.Sampling = &samplingCapability{jsonview.Get(v, "tools"), jsonview.Get(v, "context")}
			}
		case "roots":
			c.Roots = v
			continue
		case "extensions":
		default:
			continue
		}
		ok = ok && (isObject || v.Kind() == 'n')
	}
	return ok
}

func declared(v jsontext.Value) bool { return v != nil && v.Kind() == '{' }

// features translates declared capabilities. Elicitation without a mode means
// forms (MCP 2025-11-25 and later, client/elicitation, capabilities).
func (c *clientCapabilities) features() steps.Features {
	var f steps.Features
	if e := c.Elicitation; e != nil {
		if declared(e.URL) {
			f = f.With(steps.Features{Links: true})
		}
		if declared(e.Form) || !declared(e.URL) {
			f = f.With(steps.Features{Forms: true})
		}
	}
	if s := c.Sampling; s != nil {
		f = f.With(steps.Features{Sampling: true})
		if declared(s.Tools) {
			f = f.With(steps.Features{SamplingTools: true})
		}
		if declared(s.Context) {
			f = f.With(steps.Features{SamplingContext: true})
		}
	}
	if declared(c.Roots) {
		f = f.With(steps.Features{Roots: true})
	}
	return f
}

// requiredCapabilities is the ClientCapabilities object that declares features:
// the data of the error -32021 (MCP 2026-07-28, basic/index).
func requiredCapabilities(f steps.Features) json.RawMessage {
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
