package dialect

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

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
