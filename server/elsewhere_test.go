package server_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// unasked has users whose clients cannot ask them not be asked, as the tests of what clients declare want it.
var unasked = server.Questions{NoRelay: true}

// waits is what a result says of a call that is not finished.
type waits struct {
	Status, Message, ResumeToken, URL string
	Questions                         []struct {
		ID, Message string
		Schema      json.RawMessage
		Relay       bool
	}
	isError bool
}

// toolSaid is a tool's result.
type toolSaid struct {
	Content           []struct{ Text string }
	StructuredContent waits
	IsError           bool
}

func saidBy(t *testing.T, raw json.RawMessage) toolSaid {
	t.Helper()
	var r toolSaid
	require.NoError(t, json.Unmarshal(raw, &r), "%s", raw)
	require.NotEmpty(t, r.Content, "%s", raw)
	return r
}

// waitsOf reads a result whose text and structure say the same.
func waitsOf(t *testing.T, raw json.RawMessage) waits {
	t.Helper()
	r := saidBy(t, raw)
	w := r.StructuredContent
	w.isError = r.IsError
	require.NotEmpty(t, w.ResumeToken, "%s", raw)
	require.Len(t, r.Content, 1)
	assert.Equal(t, r.Content[0].Text, w.Message)
	assert.Contains(t, w.Message, "resumeToken: "+w.ResumeToken)
	return w
}

// relay goes on with a call that waits.
func relay(name string, w waits, answers any) *request {
	return callTool(name, object{"resumeToken": w.ResumeToken, "answers": answers})
}

// model is one that does only what the text of results says: it asks its user what it is told to ask, in the order of
// the text, and calls again as it is told. It gives up when it is to do what only its user can.
type model struct {
	t *testing.T
	// call calls the tool, and user answers questions by what they say.
	call func(args object) json.RawMessage
	user map[string]object
}

var (
	tokenText    = regexp.MustCompile(`resumeToken: ([A-Za-z0-9_-]+)`)
	questionText = regexp.MustCompile(`(?m)^Question ("[^"]+"): ("[^"]+")$`)
)

func (m *model) play(args object) (text string) {
	m.t.Helper()
	for range 10 {
		r := saidBy(m.t, m.call(args))
		text = r.Content[0].Text
		token, asked := tokenText.FindStringSubmatch(text), questionText.FindAllStringSubmatch(text, -1)
		if token == nil || len(asked) == 0 {
			return text
		}
		answers := object{}
		for _, q := range asked {
			var id, message string
			require.NoError(m.t, json.Unmarshal([]byte(q[1]), &id))
			require.NoError(m.t, json.Unmarshal([]byte(q[2]), &message))
			require.NotNil(m.t, m.user[message], message)
			answers[id] = m.user[message]
		}
		args = object{"resumeToken": token[1], "answers": answers}
	}
	return text
}

// callers call a tool of a server as clients of all eras do that can ask nothing.
func callers(t *testing.T, name string) map[string]func(r *rig) func(args object) json.RawMessage {
	modern := func(args object) *request { return callTool(name, args) }
	list := map[string]func(r *rig) func(args object) json.RawMessage{
		"MCP 2026-07-28": func(r *rig) func(args object) json.RawMessage {
			return func(args object) json.RawMessage { return r.send(modern(args)).Result }
		},
		"MCP 2026-07-28, stdio": func(r *rig) func(args object) json.RawMessage {
			return func(args object) json.RawMessage {
				got := lines(t, r.srv, modern(args).body()+"\n")
				return parseMessage(t, got[len(got)-1]).Result
			}
		},
	}
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		list["MCP "+version] = func(r *rig) func(args object) json.RawMessage {
			c := r.connect(version, "{}")
			return func(args object) json.RawMessage {
				raw, err := json.Marshal(args)
				require.NoError(t, err)
				return parseLegacy(t, c.ask(toolCall(7, name, string(raw)))).Result
			}
		}
	}
	return list
}

// A client that can ask nothing is told what to ask its user, and a model that does what it is told brings the call to its end.
func TestModelsRelay(t *testing.T) {
	user := map[string]object{"Which row?": {"row": "7"}, "Sure?": {"sure": true}}
	for _, remembers := range []bool{false, true} {
		for name, caller := range callers(t, "seat") {
			t.Run(map[bool]string{true: "ledger, ", false: "no ledger, "}[remembers]+name, func(t *testing.T) {
				s, o := new(seats), server.Options{}
				if o.Tools = []saga.Definition{s.tool()}; remembers {
					o.Ledger = inMemory(t)
				}
				m := &model{t, caller(newRig(t, o)), user}
				assert.Equal(t, "seat in 7", m.play(object{}))
				held, calls := s.now()
				assert.Equal(t, []int{1, 1}, []int{held, calls})
			})
		}
	}
}

// With a ledger the token is short, whatever the tool knows, and goes on with the call at any replica.
func TestHandlesAreShort(t *testing.T) {
	s, o := new(seats), server.Options{Keys: newKeys(t), Ledger: inMemory(t)}
	o.Tools = []saga.Definition{s.tool()}
	one, other := newRig(t, o), newRig(t, o)
	first := waitsOf(t, one.send(callTool("seat", nil)).Result)
	assert.LessOrEqual(t, len(first.ResumeToken), 32)
	assert.Equal(t, "waiting", first.Status)
	require.Len(t, first.Questions, 1)
	assert.Equal(t, "row", first.Questions[0].ID)
	assert.JSONEq(t, `{"type":"object","properties":{"row":{"type":"string"}},"required":["row"]}`, string(first.Questions[0].Schema))
	again := waitsOf(t, other.send(callTool("seat", object{"resumeToken": first.ResumeToken})).Result)
	assert.Equal(t, first, again, "a look changes nothing")
	second := waitsOf(t, other.send(relay("seat", first, object{"row": object{"row": "7"}})).Result)
	assert.Equal(t, first.ResumeToken, second.ResumeToken)
	assert.Equal(t, "seat in 7", one.send(relay("seat", second, object{"sure": object{"sure": true}})).result(t).text())
	assert.Equal(t, "seat in 7", other.send(relay("seat", second, object{"sure": object{"sure": false}})).result(t).text(), "the end stays the end")
}

// consenting is the tool seat, whose last question is a consent.
func (s *seats) consenting() saga.Flow[struct{}, string] {
	row := &steps.Form[rowForm]{ID: "row", Message: "Which row?"}
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?", Consent: true}
	hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
	tool := s.toolWith(hold)
	tool.Asks = []steps.Question{row, sure}
	tool.Run = func(r *saga.Run, _ struct{}) (string, error) {
		where, err := saga.Ask(r, row)
		if err != nil {
			return "", err
		}
		got, err := saga.Do(r, hold, where.Row)
		if err != nil {
			return "", err
		}
		if _, err := saga.Ask(r, sure); err != nil {
			return "", err
		}
		return got, nil
	}
	return tool
}

// somePages says where pages would be.
type somePages struct{}

func (somePages) Link(_ context.Context, _, task string, _ time.Time) (string, error) {
	return "https://example.com/ask/" + task, nil
}

// No model gives a consent: with a page it is told to send its user there; where there is none the call is undone.
func TestConsentsAreNotRelayed(t *testing.T) {
	for _, remembers := range []bool{false, true} {
		for name, caller := range callers(t, "seat") {
			t.Run(map[bool]string{true: "ledger, ", false: "no ledger, "}[remembers]+name, func(t *testing.T) {
				s, o := new(seats), server.Options{}
				if o.Tools = []saga.Definition{s.consenting()}; remembers {
					o.Ledger = inMemory(t)
				}
				m := &model{t, caller(newRig(t, o)), map[string]object{"Which row?": {"row": "7"}}}
				text := m.play(object{})
				assert.Contains(t, text, `it asks "sure", which must be answered by a person`)
				held, calls := s.now()
				assert.Equal(t, []int{0, 1}, []int{held, calls}, "undone")
			})
		}
	}
	t.Run("with a page", func(t *testing.T) {
		s := new(seats)
		r := newRig(t, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{s.consenting()}})
		server.SetPages(r.srv, somePages{})
		first := waitsOf(t, r.send(callTool("seat", nil)).Result)
		assert.Contains(t, first.Message, "https://example.com/ask/"+first.ResumeToken)
		second := waitsOf(t, r.send(relay("seat", first, object{"row": object{"row": "7"}})).Result)
		assert.False(t, second.isError)
		assert.Equal(t, "https://example.com/ask/"+first.ResumeToken, second.URL)
		assert.Contains(t, second.Message, "Ask the user to open this link and answer there: "+second.URL)
		assert.NotContains(t, second.Message, "in the chat")
		refused := waitsOf(t, r.send(relay("seat", second, object{"sure": object{"sure": true}})).Result)
		assert.True(t, refused.isError)
		assert.Contains(t, refused.Message, `No answer was taken: "sure" must be answered by a person, not by a model.`)
		assert.Contains(t, refused.Message, second.URL)
		held, _ := s.now()
		assert.Equal(t, 1, held, "nothing is lost")
	})
}

// An operator says which routes there are, an author narrows them, and only clients that go on see how in lists.
func TestRoutesAreNarrowed(t *testing.T) {
	tool := func(change func(i *saga.Info)) saga.Definition {
		m := new(seats).tool()
		change(&m.Info)
		return m
	}
	plain := func(*saga.Info) {}
	asksModel := func(i *saga.Info) { // whose messages come with each question
		i.Asks = append(i.Asks, &steps.Sample{ID: "draft", Request: steps.SampleRequest{MaxTokens: 10}})
	}
	cases := map[string]struct {
		questions    server.Questions
		tool         saga.Definition
		capabilities object
		relayed      bool
	}{
		"nothing declared":          {server.Questions{}, tool(plain), object{}, true},
		"forms declared":            {server.Questions{}, tool(plain), object{"elicitation": object{}}, false},
		"links declared":            {server.Questions{}, tool(plain), object{"elicitation": object{"url": object{}}}, true},
		"no relay":                  {unasked, tool(plain), object{}, false},
		"forced":                    {server.Questions{Force: steps.RouteRelay}, tool(plain), object{"elicitation": object{}}, true},
		"the client forced":         {server.Questions{Force: steps.RouteClient}, tool(plain), object{}, false},
		"not the tool's":            {server.Questions{}, tool(func(i *saga.Info) { i.Routes = steps.RouteClient | steps.RoutePage }), object{}, false},
		"the tool's":                {server.Questions{}, tool(func(i *saga.Info) { i.Routes = steps.RouteRelay }), object{"elicitation": object{}}, true},
		"neither the server's":      {server.Questions{Force: steps.RouteClient}, tool(func(i *saga.Info) { i.Routes = steps.RouteRelay }), object{}, false},
		"names of arguments in use": {server.Questions{}, ownAnswers(), object{}, false},
		"it has what the tool asks": {server.Questions{}, tool(asksModel), object{"sampling": object{}}, false},
		"it lacks it":               {server.Questions{}, tool(asksModel), object{}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server.Options{Questions: c.questions, Tools: []saga.Definition{c.tool}})
			listed := r.send(modernRequest("tools/list", nil).with(c.capabilities))
			assert.Equal(t, c.relayed, strings.Contains(listed.raw, "the resumeToken of its result"), listed.raw)
			capabilities, err := json.Marshal(c.capabilities)
			require.NoError(t, err)
			assert.Equal(t, c.relayed, strings.Contains(r.connect("2025-11-25", string(capabilities)).ask(methodCall(1, "tools/list", "{}")), "the resumeToken of its result"))
			got := r.send(callTool("seat", nil).with(c.capabilities))
			assert.Equal(t, c.relayed, strings.Contains(got.raw, `"status":"waiting"`), got.raw)
		})
	}
}

// ownAnswers has an argument of its own with the name of one that goes on with calls.
func ownAnswers() saga.Definition {
	type args struct {
		Answers string `json:"answers,omitempty"`
	}
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	return saga.Flow[args, string]{Info: saga.Info{Name: "seat", Asks: []steps.Question{sure}}, Run: func(r *saga.Run, a args) (string, error) {
		_, err := saga.Ask(r, sure)
		return a.Answers, err
	}}
}

// A client reads an error where it would refuse a result that does not fit the tool's output schema.
func TestWaitingFitsOutputSchemas(t *testing.T) {
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	tool := saga.Flow[struct{}, sureForm]{Info: saga.Info{Name: "structured", Asks: []steps.Question{sure}},
		Run: func(r *saga.Run, _ struct{}) (sureForm, error) { return saga.Ask(r, sure) }}
	r := newRig(t, server.Options{Tools: []saga.Definition{tool}, Ledger: inMemory(t)})
	first := waitsOf(t, r.send(callTool("structured", nil)).Result)
	assert.True(t, first.isError)
	end := r.send(relay("structured", first, object{"sure": object{"sure": true}}))
	assert.Contains(t, end.raw, `"structuredContent":{"sure":true}`)
}

// An answer that a model has relayed says so in the log of its call.
func TestRelayedAnswersSaySo(t *testing.T) {
	s, keys, store := new(seats), newKeys(t), inMemory(t)
	r := newRig(t, server.Options{Keys: keys, Ledger: store, Tools: []saga.Definition{s.tool()}})
	first := waitsOf(t, r.send(callTool("seat", nil)).Result)
	waitsOf(t, r.send(relay("seat", first, object{"row": object{"row": "7"}})).Result)
	operator := durable.NewOperator(store, func() *codec.Keyset { return keys }, "")
	var said []string
	for w, err := range operator.All(t.Context()) {
		require.NoError(t, err)
		for e, err := range operator.History(t.Context(), w.ID) {
			require.NoError(t, err)
			if e.Kind == "answer" {
				said = append(said, e.Text)
			}
		}
	}
	assert.Equal(t, []string{"by relay"}, said)
}

// A server that is to go by no route that there is does not begin, nor does a tool's definition or a question's.
func TestRoutesThatThereAreNot(t *testing.T) {
	const none = steps.Routes(1 << 6)
	_, err := server.New(server.Options{Keys: newKeys(t), Questions: server.Questions{Force: none}})
	assert.ErrorContains(t, err, "Options.Questions.Force has none of the routes that there are")
	tool := new(seats).tool()
	tool.Routes = none
	_, err = server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}})
	assert.ErrorContains(t, err, "its Routes have none that there is")
	for _, q := range []steps.Question{
		&steps.Form[sureForm]{ID: "sure", Message: "Sure?", Routes: none},
		&steps.Form[sureForm]{ID: "sure", Message: "Sure?", Routes: steps.RouteRelay, Consent: true},
		&steps.Link{ID: "sure", Message: "Sure?", Routes: none},
	} {
		var wrong *steps.QuestionError
		assert.ErrorAs(t, q.Verify(), &wrong)
	}
}
