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
