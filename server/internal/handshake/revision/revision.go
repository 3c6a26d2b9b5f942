// Package revision knows the revisions of MCP with a handshake, and what a client of each can read. Programs are written as if all
// clients were of the newest.
package revision

import (
	"encoding/json"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Revision is a revision of MCP with a handshake. Newer ones are greater.
type Revision uint8

// The revisions.
const (
	November2024 Revision = iota // 2024-11-05
	March2025                    // 2025-03-26: the capability completions, ids of events
	June2025                     // 2025-06-18
	November2025                 // 2025-11-25: tasks
)

// Each revision has its place in what session ids say.
var _ = [1]struct{}{}[len(sessionid.Revisions)-1-int(November2025)]

// Versions are the protocol versions that this server answers, newest first.
func Versions() []string {
	list := slices.Clone(sessionid.Revisions[:])
	slices.Reverse(list)
	return list
}

// Serves reports whether a protocol version is one of a revision.
func Serves(version string) bool { return slices.Contains(sessionid.Revisions[:], version) }

// Negotiate returns the revision that a client asked for, or the newest if it is not known (MCP 2025-11-25, basic/lifecycle).
func Negotiate(version string) Revision {
	if i := slices.Index(sessionid.Revisions[:], version); i >= 0 {
		return Revision(i)
	}
	return November2025
}

// String returns what the revision is called in the protocol.
func (r Revision) String() string { return sessionid.Revisions[r] }

// What the changelogs of the revisions say.

// Batches reports whether several messages may come in one array, as in this revision only.
func (r Revision) Batches() bool { return r == March2025 }

// audio reports whether there are blocks of audio.
func (r Revision) audio() bool { return r >= March2025 }

// Structured reports whether there are structuredContent, outputSchema and resource_link.
func (r Revision) Structured() bool { return r >= June2025 }

// Features restricts what a client declared to what its revision has: since 2025-06-18 forms, and since 2025-11-25 URL mode and
// sampling with tools. Before, asking for context needed no capability of its own.
func (r Revision) Features(declared dialect.Capabilities) steps.Features {
	f := declared.Features
	if r < November2025 {
		f = f.Without(steps.Features{Links: true, SamplingTools: true})
		if declared.Elicitation {
			f = f.With(steps.Features{Forms: true}) // modes are unknown to the revision: what stands there means nothing
		}
		if f.Has(steps.Features{Sampling: true}) {
			f = f.With(steps.Features{SamplingContext: true})
		}
	}
	if r < June2025 {
		f = f.Without(steps.Features{Forms: true})
	}
	return f
}

// Has returns what a client of the revision can declare.
func (r Revision) Has() steps.Features {
	return r.Features(dialect.Capabilities{Features: steps.AllFeatures(), Elicitation: true})
}

// Question is what a step asks, as the parameters of a request of an older revision than the newest.
func (r Revision) Question(s steps.Step) (params json.RawMessage, err error) {
	switch s.Kind {
	case steps.Elicitation: // before SEP-1330
		return choices(s.Params)
	case steps.Sampling:
		return r.messages(s.Params)
	}
	return s.Params, nil
}

// choices writes the titles of choices as 2025-06-18 has them. A choice of several, which it has not, stays as it is.
func choices(params json.RawMessage) (json.RawMessage, error) {
	form, err := steps.Step{Params: params}.Form()
	if err != nil {
		return nil, err
	}
	changed := false
	for i := range form.Fields {
		f := &form.Fields[i]
		titled := slices.ContainsFunc(f.Choices, func(c steps.Choice) bool { return c.Title != "" })
		if titled && !f.Multiple && !f.LegacyTitles {
			f.LegacyTitles, changed = true, true
		}
	}
	if !changed {
		return params, nil
	}
	return form.AppendParams(nil), nil
}

// messages gives each message one block, as before 2025-11-25, and text for audio where that did not exist.
func (r Revision) messages(params json.RawMessage) (json.RawMessage, error) {
	plain := true
	for m := range jsonview.Elements(jsonview.Get(params, "messages")) {
		c := jsontext.Value(jsonview.Get(m, "content"))
		plain = plain && c.Kind() == '{' && (r.audio() || !jsonview.Is(jsonview.Get(c, "type"), "audio"))
	}
	if plain {
		return params, nil
	}
	request, err := steps.Step{Params: params}.Sample()
	if err != nil {
		return nil, err
	}
	var messages []steps.SampleMessage
	for _, m := range request.Messages {
		for _, b := range r.blocks(m.Content) {
			messages = append(messages, steps.SampleMessage{Role: m.Role, Content: content.Blocks{b}})
		}
	}
	request.Messages = messages
	return request.AppendParams(nil)
}

// Result makes a tool's result one that a revision has.
func (r Revision) Result(in *content.Result) *content.Result {
	structured := jsontext.Value(in.StructuredContent)
	if r >= June2025 && (structured == nil || structured.Kind() == '{') {
		return in
	}
	out := *in
	out.Content = r.blocks(in.Content)
	if structured == nil {
		return &out
	}
	// Only objects could be structured results (SEP-2106 allowed the rest). A model sees it all the same.
	out.StructuredContent = nil
	if len(out.Content) == 0 {
		out.Content = content.Blocks{content.Text{Text: string(structured)}}
	}
	return &out
}

func (r Revision) blocks(in content.Blocks) content.Blocks {
	if r.Structured() {
		return in
	}
	out := make(content.Blocks, len(in))
	for i, b := range in {
		out[i] = r.Block(b)
	}
	return out
}

// Block replaces a block that a revision does not have by text.
func (r Revision) Block(b content.Block) content.Block {
	if r.Structured() || b == nil {
		return b
	}
	switch kind := b.BlockType(); {
	case kind == "audio" && !r.audio():
		return content.Text{Text: "(A sound that this version of the protocol cannot carry.)"}
	case kind == "resource_link":
		var link struct {
			URI, Name, Title, Description string
		}
		raw, err := wire.Marshal(b)
		if err != nil || jsonv2.Unmarshal(raw, &link, jsonv2.MatchCaseInsensitiveNames(true)) != nil {
			return b
		}
		text := link.Name
		if link.Title != "" {
			text = link.Title
		}
		if link.Description != "" {
			text += " (" + link.Description + ")"
		}
		return content.Text{Text: text + ": " + link.URI}
	}
	return b
}
