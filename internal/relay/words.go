// Package relay has the words by which a model learns what a call of a tool waits for, where the user's client cannot be
// asked.
package relay

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Person is the refusal of a model's answer to a question that it must not answer.
func Person(question string) string {
	return fmt.Sprintf("No answer was taken: %q must be answered by a person, not by a model.", question)
}

// TooLate is what is said of a call that was to be cancelled, and continues.
const TooLate = "Not cancelled: it is too late, as what the tool has done is final. It continues."

// NoWay is the result of a call that was undone as no user could be asked.
func NoWay(t *engine.Program, question string, undone *content.Result) *content.Result {
	r := *undone
	text := fmt.Sprintf("%q was stopped: it asks %q, which must be answered by a person, and neither this client nor this server has a way to ask. What it did was undone, as far as it could be.", t.Name, question)
	r.Content, r.IsError = append(content.Blocks{content.Text{Text: text}}, undone.Content...), true
	return &r
}

// Stuck is the result of a call that cannot be undone any more, and asks what no user can be asked.
func Stuck(t *engine.Program, question string) *content.Result {
	r := content.Resultf("%q has stopped: it asks %q, which must be answered by a person, and neither this client nor this server has a way to ask. It is too late to undo what it did, as that is final: do not call it again for the same.", t.Name, question)
	r.IsError = true
	return r
}

// encoded is how results are written, as all messages of the server.
var encoded = jsonv2.JoinOptions(jsonv2.FormatNilSliceAsNull(false), jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))

// Words are what a model reads of a call that waits. Some hosts show it the text of a result, others only what is
// structured, so both have the same words. What a tool asks is quoted as JSON, so that it cannot be taken for words of
// the server's.
type Words struct {
	Program *engine.Program
	// Token is what the model continues with, and Refusal says what was wrong with what it brought.
	Token, Refusal string
	// Working: it is not the user that the call waits for; Wake is until when it sleeps, or zero.
	Working bool
	Wake    time.Time
	// Task: it continues by itself when it is answered.
	Task bool
	// Pages: there are questions that the user may answer on a page, whose URL is this.
	Pages bool
	URL   string

	relayed, byPerson []question
	apps              bool // all may be answered in a form in the window
}

// question is a question as models read it.
type question struct {
	ID      string          `json:"id"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitzero"`
	URL     string          `json:"url,omitzero"`
	// Relay: the model may ask it in the chat.
	Relay bool `json:"relay"`
}

// Ask adds a question that can be asked by these routes.
func (w *Words) Ask(s steps.Step, routes steps.Routes) {
	q := question{ID: s.ID, Relay: routes&steps.RouteRelay != 0, Schema: json.RawMessage(jsonview.Get(s.Params, "requestedSchema"))}
	q.Message, _ = jsonview.String(jsonview.Get(s.Params, "message"))
	q.URL, _ = jsonview.String(jsonview.Get(s.Params, "url"))
	w.Pages = w.Pages || routes&steps.RoutePage != 0
	w.apps = w.apps || routes&steps.RouteApp != 0
	if q.Relay {
		w.relayed = append(w.relayed, q)
	} else {
		w.byPerson = append(w.byPerson, q)
	}
}

// Result is the result that says so.
func (w *Words) Result() *content.Result {
	text := w.Text()
	status := "waiting"
	if w.Working {
		status = "working"
	}
	r := content.Resultf("%s", text)
	r.StructuredContent, _ = jsonv2.Marshal(struct { // strings and checked JSON always encode
		Status    string     `json:"status"`
		Message   string     `json:"message"`
		Token     string     `json:"resumeToken"`
		Questions []question `json:"questions,omitzero"`
		URL       string     `json:"url,omitzero"`
	}{status, text, w.Token, append(w.byPerson[:len(w.byPerson):len(w.byPerson)], w.relayed...), w.URL}, encoded)
	// A result that does not fit the output schema is refused by clients unless it is an error.
	r.IsError = w.Refusal != "" || w.Program.OutputSchema != nil
	return r
}

// Text is what it says.
func (w *Words) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if w.Refusal != "" {
		line("%s", w.Refusal)
	}
	again := fmt.Sprintf("call the tool %q again with the same arguments and in addition resumeToken: %s", w.Program.Name, w.Token)
	if w.Working {
		line("%q is not finished: it works on. Later, %s", w.Program.Name, again)
		if !w.Wake.IsZero() {
			line("It continues at %s.", w.Wake.UTC().Format(time.RFC3339))
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	line("%q is not finished: it waits for an answer of the user. Do not answer for the user, and do not call other tools for this.", w.Program.Name)
	if w.apps {
		line("A form is shown to the user in this window.")
	}
	if w.URL != "" {
		line("Ask the user to open this link and answer there: %s", w.URL)
	}
	for _, q := range w.byPerson {
		line("Only the user can answer question %s there: %s", quoted(q.ID), quoted(q.Message))
	}
	there := w.apps || w.URL != ""
	if len(w.relayed) > 0 && there {
		line("Or ask the user in the chat:")
	} else if len(w.relayed) > 0 {
		line("Ask the user in the chat:")
	}
	var example []string
	for _, q := range w.relayed {
		line("Question %s: %s", quoted(q.ID), quoted(q.Message))
		if q.URL != "" {
			line("It is to open this link, and to say when that is done: %s", q.URL)
			example = append(example, quoted(q.ID)+`:"accept"`)
		} else {
			line("The answer is an object with this schema: %s", q.Schema)
			example = append(example, quoted(q.ID)+":{…}")
		}
	}
	if w.Task && there {
		line("When the user has answered there, the task continues. To see what has become of it, %s", again)
	} else if there {
		line("When the user has answered there, %s", again)
	}
	if len(example) > 0 {
		line(`When the user has answered in the chat, %s and answers: {%s}`, again, strings.Join(example, ","))
		line(`What the user refuses is "decline" in place of the object; to give all of it up, answers is "cancel".`)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// quoted is a text as a JSON string.
func quoted(s string) string {
	b, _ := jsonv2.Marshal(s, jsontext.AllowInvalidUTF8(true)) // strings always encode
	return string(b)
}
