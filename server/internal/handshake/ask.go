package handshake

import (
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// stepRequest is the request that asks the client for a step, in the form of its
// revision.
func stepRequest(r revision, s steps.Step, links *links) (method string, params json.RawMessage, err error) {
	params = s.Params
	switch {
	case s.Kind == steps.Elicitation && s.Needs.Has(steps.Features{Links: true}):
		params = links.open(s)
	case s.Kind == steps.Elicitation && !r.titledChoices():
		params, err = plainChoices(params)
	case s.Kind == steps.Sampling && r < revision2025November:
		params, err = plainMessages(r, params)
	}
	return dialect.RequestMethod(s.Kind), params, err
}

// plainChoices writes the titles of a form's choices as 2025-06-18 has them. A
// choice of several did not exist; it stays as it is, for clients that manage.
func plainChoices(params json.RawMessage) (json.RawMessage, error) {
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

// plainMessages gives each message one block, as it was before 2025-11-25: several
// become messages of the same role. Audio becomes text where it did not exist.
func plainMessages(r revision, params json.RawMessage) (json.RawMessage, error) {
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
		for _, b := range plainBlocks(r, m.Content) {
			messages = append(messages, steps.SampleMessage{Role: m.Role, Content: content.Blocks{b}})
		}
	}
	request.Messages = messages
	return request.AppendParams(nil)
}

// links are the pages that a call has sent the user to. From 2025-11-25 on each has
// an id, and the client is told when what was to be done there is done (MCP
// 2025-11-25, client/elicitation, completion notifications). What happens on a page
// the server need not know; but when the call has succeeded, it is done.
type links struct {
	revision revision
	ids      map[string]string // of the steps asked, by step id
	accepted []string
}

func newLinks(r revision) *links { return &links{revision: r, ids: make(map[string]string)} }

// open adds the id to the parameters of a request in URL mode.
func (l *links) open(s steps.Step) json.RawMessage {
	id := rand.Text()
	l.ids[s.ID] = id
	out := append(jsontext.Value(nil), s.Params[:len(s.Params)-1]...) // compact: ends with the brace
	return append(wire.AppendString(append(out, `,"elicitationId":`...), id), '}')
}

// note remembers which pages the user agreed to open.
func (l *links) note(asked []steps.Step, answers []steps.Answer) {
	for i, s := range asked {
		if id := l.ids[s.ID]; id != "" && jsonview.Is(jsonview.Get(answers[i].Result, "action"), "accept") {
			l.accepted = append(l.accepted, id)
		}
	}
}

func (l *links) complete(to dialect.Way) {
	for _, id := range l.accepted {
		to.Notify("notifications/elicitation/complete", append(wire.AppendString([]byte(`{"elicitationId":`), id), '}'))
	}
}
