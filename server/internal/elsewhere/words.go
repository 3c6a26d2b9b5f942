package elsewhere

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Some hosts show a model the text of a result, others only what is structured. So both have the same words. What a tool
// asks is quoted as JSON, so that it cannot be taken for words of the server's.

const (
	refusedText = "The resumeToken is not valid here, or no longer: what it named has ended, or waited too long, and what it did was undone. Call the tool again without it."
	// otherArguments is said of a call that continues with other arguments than it began with.
	otherArguments = "The arguments are not those of the first call, so nothing was done. Call the tool again with the same arguments and the resumeToken, or without the resumeToken to begin anew."
)

// refused is what is said of a token that leads to nothing, whatever the reason.
func refused() *content.Result { return wrong(refusedText) }

func wrong(text string) *content.Result {
	r := content.Resultf("%s", text)
	r.IsError = true
	return r
}

// noWay is the result of a call that was undone as no user could be asked.
func noWay(t *engine.Program, question string, undone *content.Result) *content.Result {
	r := *undone
	text := fmt.Sprintf("%q was stopped: it asks %q, which must be answered by a person, and neither this client nor this server has a way to ask. What it did was undone, as far as it could be.", t.Name, question)
	r.Content, r.IsError = append(content.Blocks{content.Text{Text: text}}, undone.Content...), true
	return &r
}

// words are what a model reads of a call that waits.
type words struct {
	program *engine.Program
	token   string
	refusal string
	// working: it is not the user that the call waits for; wake is until when it sleeps, or zero.
	working bool
	wake    time.Time

	relayed, byPerson []question
	apps              bool // all may be answered in a form in the window
	url               string
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

// ask adds a question that can be asked by these routes.
func (w *words) ask(s steps.Step, routes steps.Routes) {
	q := question{ID: s.ID, Relay: routes&steps.RouteRelay != 0, Schema: json.RawMessage(jsonview.Get(s.Params, "requestedSchema"))}
	q.Message, _ = jsonview.String(jsonview.Get(s.Params, "message"))
	q.URL, _ = jsonview.String(jsonview.Get(s.Params, "url"))
	w.apps = w.apps || routes&steps.RouteApp != 0
	if q.Relay {
		w.relayed = append(w.relayed, q)
	} else {
		w.byPerson = append(w.byPerson, q)
	}
}

// result is the result that says so.
func (w *words) result() *content.Result {
	text := w.text()
	status := "waiting"
	if w.working {
		status = "working"
	}
	r := content.Resultf("%s", text)
	r.StructuredContent, _ = wire.Marshal(struct { // strings and checked JSON always encode
		Status    string     `json:"status"`
		Message   string     `json:"message"`
		Token     string     `json:"resumeToken"`
		Questions []question `json:"questions,omitzero"`
		URL       string     `json:"url,omitzero"`
	}{status, text, w.token, append(w.byPerson[:len(w.byPerson):len(w.byPerson)], w.relayed...), w.url})
	// A result that does not fit the output schema is refused by clients unless it is an error.
	r.IsError = w.refusal != "" || w.program.OutputSchema != nil
	return r
}

func (w *words) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if w.refusal != "" {
		line("%s", w.refusal)
	}
	again := fmt.Sprintf("call the tool %q again with the same arguments and in addition resumeToken: %s", w.program.Name, w.token)
	if w.working {
		line("%q is not finished: it works on. Later, %s", w.program.Name, again)
		if !w.wake.IsZero() {
			line("It continues at %s.", w.wake.UTC().Format(time.RFC3339))
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	line("%q is not finished: it waits for an answer of the user. Do not answer for the user, and do not call other tools for this.", w.program.Name)
	if w.apps {
		line("A form is shown to the user in this window.")
	}
	if w.url != "" {
		line("Ask the user to open this link and answer there: %s", w.url)
	}
	for _, q := range w.byPerson {
		line("Only the user can answer question %s there: %s", quoted(q.ID), quoted(q.Message))
	}
	if len(w.relayed) > 0 && (w.apps || w.url != "") {
		line("Or ask the user in the chat:")
	} else if len(w.relayed) > 0 {
		line("Ask the user in the chat:")
	}
	var example []string
	for _, q := range w.relayed {
		line("Question %s: %s", quoted(q.ID), quoted(q.Message))
		switch {
		case q.URL != "":
			line("It is to open this link, and to say when that is done: %s", q.URL)
			example = append(example, quoted(q.ID)+`:"accept"`)
		default:
			line("The answer is an object with this schema: %s", q.Schema)
			example = append(example, quoted(q.ID)+":{…}")
		}
	}
	if w.url != "" || w.apps {
		line("When the user has answered there, %s", again)
	}
	if len(example) > 0 {
		line(`When the user has answered in the chat, %s and answers: {%s}`, again, strings.Join(example, ","))
		line(`What the user refuses is "decline" in place of the object; to give all of it up, answers is "cancel".`)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// quoted is a text as a JSON string.
func quoted(s string) string { return string(wire.AppendString(nil, s)) }
