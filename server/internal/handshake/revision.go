package handshake

import (
	"slices"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// revision is a revision of MCP with a handshake, the oldest first. What a
// client of a revision cannot read is not sent to it.
type revision uint8

const (
	revision2024November revision = iota // 2024-11-05
	revision2025March                    // 2025-03-26
	revision2025June                     // 2025-06-18
	revision2025November                 // 2025-11-25
)

// Protocol versions with a handshake that this server answers, newest first.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// negotiate returns the revision that a client asked for, or the newest if this
// server does not have that one (MCP 2025-11-25, basic/lifecycle, version
// negotiation).
func negotiate(version string) revision {
	if i := slices.Index(versions, version); i >= 0 {
		return revision2025November - revision(i)
	}
	return revision2025November
}

func (r revision) String() string { return versions[revision2025November-r] }

// What the changelogs of the revisions say.

// batches: several messages may come in one array. They came and went with this
// revision.
func (r revision) batches() bool { return r == revision2025March }

// audio: blocks of audio exist.
func (r revision) audio() bool { return r >= revision2025March }

// structured: structuredContent, outputSchema and resource_link exist.
func (r revision) structured() bool { return r >= revision2025June }

// titledChoices: a form's choices may have titles beside enumNames, and several
// may be chosen (SEP-1330).
func (r revision) titledChoices() bool { return r >= revision2025November }

// polling: streams begin with an event that the client can resume from (SEP-1699).
func (r revision) polling() bool { return r >= revision2025November }

// features restricts what a client declared to what its revision has. Elicitation
// came with 2025-06-18, with forms only; URL mode and sampling with tools came with
// 2025-11-25. Before, asking for context needed no capability of its own.
func (r revision) features(declared dialect.Capabilities) steps.Features {
	f := declared.Features()
	if r < revision2025November {
		f = f.Without(steps.Features{Links: true, SamplingTools: true})
		if declared.Elicitation {
			f = f.With(steps.Features{Forms: true}) // modes are unknown to the revision: what stands there means nothing
		}
		if f.Has(steps.Features{Sampling: true}) {
			f = f.With(steps.Features{SamplingContext: true})
		}
	}
	if r < revision2025June {
		f = f.Without(steps.Features{Forms: true})
	}
	return f
}

// has returns what a client of the revision can declare.
func (r revision) has() steps.Features {
	return r.features(dialect.Capabilities{
		Elicitation: true, Form: true, URL: true, Sampling: true, Tools: true, Context: true, Roots: true,
	})
}

// Revisions are the revisions of MCP that the dialect speaks, newest first.
func Revisions() []string { return slices.Clone(versions) }
