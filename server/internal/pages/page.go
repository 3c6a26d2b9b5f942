package pages

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	texttemplate "text/template"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// page is what a page shows.
type page struct {
	Style template.CSS
	Title string
	// Server and Tool say who asks, Person for whom, and Called since when; all empty on pages of no call.
	Server, Tool, Person string
	Called               time.Time
	// Alert is what went wrong, Note what went well, and State how the call stands, unless it asks something.
	Alert, Note, State string
	Question           *question
	// Again: it is worth looking again.
	Again bool
	// Stop is the token of the form that gives the call up; empty if it has none.
	Stop string
	// Waiting are the entries of a list, More leads to the next ones, and Back from one to the list.
	Waiting    []waiting
	More, Back string
}

// question is a question as a page asks it.
type question struct {
	ID, Token, Message string
	// Others is how many questions are open besides this one.
	Others int
	// Consent: what is answered authorises something.
	Consent bool
	Fields  fields
	// URL and Host are those of a page that the question sends the user to.
	URL, Host string
	// Until is until when it can be answered, if that is known.
	Until string
}

func (p *Pages) show(w http.ResponseWriter, status int, shown *page) {
	shown.Style = template.CSS(style)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := p.layout.Execute(w, shown); errors.As(err, new(texttemplate.ExecError)) { // any other is that the client has gone
		p.host.Log.Error("page not written", "error", err)
	}
}

// tool is what the tool of the call is called.
func (v *visit) tool() string {
	switch p := v.task.Program; {
	case p == nil:
		return "A tool"
	case p.Title != "":
		return p.Title
	default:
		return p.Name
	}
}

// asks are the open questions that can be answered on a page.
func (v *visit) asks() (list []steps.Step) {
	if v.task.Program == nil || v.task.Status != tasks.InputRequired || v.task.Cancelling {
		return nil
	}
	for _, q := range v.task.Questions {
		if v.router.Routes(v.task.Program.Routing(q.ID), &dialect.Caller{})&steps.RoutePage != 0 {
			list = append(list, q)
		}
	}
	return list
}

// question is the one that the page asks now, or nil.
func (v *visit) question() *steps.Step {
	if list := v.asks(); len(list) > 0 {
		return &list[0]
	}
	return nil
}

// page is how the call stands.
func (v *visit) page() *page {
	shown := &page{
		Title: v.tool() + " asks you", Tool: v.tool(), Person: v.person(v.link.Principal), Called: v.task.Created.UTC(),
		Server: v.server(),
	}
	q := v.question()
	if q != nil {
		shown.Question = v.asked(q)
	} else {
		shown.Title, shown.State, shown.Again = v.state()
	}
	switch {
	case v.task.Status.Ended(), v.task.Cancelling:
	case v.task.Final:
		shown.Alert = relay.TooLate
	default:
		shown.Stop = v.link.token("")
	}
	return shown
}

// server is what the server is called.
func (p *Pages) server() string { return cmp.Or(p.host.Info.Title, p.host.Info.Name) }

// asked is a question as the page asks it.
func (v *visit) asked(q *steps.Step) *question {
	routing := engine.Routing{}
	if v.task.Program != nil {
		routing = v.task.Program.Routing(q.ID)
	}
	asked := &question{ID: q.ID, Token: v.link.token(q.ID), Others: len(v.task.Questions) - 1, Consent: routing.Consent, Fields: fieldsOf(q)}
	asked.Message, _ = jsonview.String(jsonview.Get(q.Params, "message"))
	if to, err := q.Link(); err == nil {
		asked.URL = to.URL
		if parsed, err := url.Parse(to.URL); err == nil {
			asked.Host = parsed.Host
		}
	}
	return asked
}

// state says how a call stands that asks nothing here. again says that this may change.
func (v *visit) state() (title, text string, again bool) {
	const back = " Go back to the chat, and say that it can go on."
	tool := v.tool()
	switch t := v.task; {
	case t.Status == tasks.Completed && t.Bad:
		return tool + " has failed", "The tool has come to its end, and says that it has failed." + back, false
	case t.Status == tasks.Completed:
		return tool + " is done", "The tool has completed." + back, false
	case t.Status == tasks.Failed:
		return tool + " has failed", "The tool has failed." + back, false
	case t.Status == tasks.Cancelled:
		return tool + " was stopped", "It was stopped, and what it had done is undone, as far as it could be.", false
	case t.Cancelling:
		return tool + " is being stopped", "What it has done is being undone, unless it is too late for that.", true
	case len(t.Awaits) > 0:
		return tool + " waits", t.Message, true
	case t.Status == tasks.InputRequired && t.Program == nil:
		return tool + " waits", "A newer server continues it. Look again in a minute: nothing is lost.", true
	case t.Status == tasks.InputRequired:
		return tool + " waits", "What it asks now is answered in the chat, not here.", true
	}
	return tool + " works", "Nothing is asked at present: the tool is working. It may ask something more, here.", true
}

// Stamp is when the call was made, for machines.
func (p *page) Stamp() string { return p.Called.Format(time.RFC3339) }

// When is it for people.
func (p *page) When() string { return p.Called.Format("2 January 2006, 15:04") + " UTC" }

// More says how many questions are open besides the first.
func (q *question) More() string {
	if q.Others == 1 {
		return "One more question is open."
	}
	return strconv.Itoa(q.Others) + " more questions are open."
}
