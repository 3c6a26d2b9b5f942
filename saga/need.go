package saga

import "github.com/mcpsaga/mcpsaga/steps"

// Need fails with an *[UnsupportedError] if the client lacks one of the features.
// Return its error: the client learns what it would have to declare. Questions
// are checked when they are asked; this is for a tool that is of no use to a
// client that could not answer what comes later.
func (t *Turn[Args, State]) Need(f steps.Features) error { return t.turn.need(f) }

// Need fails with an *[UnsupportedError] if the client lacks one of the features;
// see [Turn.Need].
func (r *Run) Need(f steps.Features) error { return r.turn.need(f) }

func (tc *turnContext) need(f steps.Features) error {
	if tc.client.Has(f) {
		return nil
	}
	return &UnsupportedError{Tool: tc.tool.Name, Needs: f}
}
