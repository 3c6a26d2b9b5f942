package steps

import "strings"

// Features is a set of things a client may be able to do. A step needs some of
// them; a client that lacks one of these must not be sent the step.
type Features struct {
	// Forms: the client shows forms ("elicitation.form").
	Forms bool
	// Links: the client opens URLs for the user ("elicitation.url").
	Links bool
	// Sampling: the client has a model ("sampling").
	Sampling bool
	// SamplingTools: the client's model can use tools given in the request
	// ("sampling.tools").
	SamplingTools bool
	// SamplingContext: the client can include context from MCP servers
	// ("sampling.context").
	SamplingContext bool
	// Roots: the client lists its roots ("roots").
	Roots bool
}

// AllFeatures returns every feature.
func AllFeatures() Features { return Features{true, true, true, true, true, true} }

// Has reports whether f holds every feature of want.
func (f Features) Has(want Features) bool { return f.With(want) == f }

// With returns the features of both.
func (f Features) With(g Features) Features {
	return Features{f.Forms || g.Forms, f.Links || g.Links, f.Sampling || g.Sampling,
		f.SamplingTools || g.SamplingTools, f.SamplingContext || g.SamplingContext, f.Roots || g.Roots}
}

// Without returns the features of f that g does not hold.
func (f Features) Without(g Features) Features {
	return Features{f.Forms && !g.Forms, f.Links && !g.Links, f.Sampling && !g.Sampling,
		f.SamplingTools && !g.SamplingTools, f.SamplingContext && !g.SamplingContext, f.Roots && !g.Roots}
}

// String lists the features' MCP capability names, separated by commas.
func (f Features) String() string {
	var names []string
	for _, x := range []struct {
		has  bool
		name string
	}{{f.Forms, "elicitation.form"}, {f.Links, "elicitation.url"}, {f.Sampling, "sampling"},
		{f.SamplingTools, "sampling.tools"}, {f.SamplingContext, "sampling.context"}, {f.Roots, "roots"}} {
		if x.has {
			names = append(names, x.name)
		}
	}
	return strings.Join(names, ", ")
}
