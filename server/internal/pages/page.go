package pages

import (
	"cmp"
	"errors"
	"html/template"
	"net/url"
	"strconv"
	texttemplate "text/template"
	"time"

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
	Called               moment
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

func (v *visit) show(status int, shown *page) {
	shown.Style = template.CSS(style)
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	if err := v.layout.Execute(v.w, shown); errors.As(err, new(texttemplate.ExecError)) { // any other is that the client has gone
		v.host.Log.Error("page not written", "error", err)
	}
}

// tool is what the tool of the call is called.
func (c *call) tool() string {
	if c.task.Program == nil {
		return "A tool"
	}
	return cmp.Or(c.task.Program.Title, c.task.Program.Name)
}

// asks are the open questions that can be answered on a page.
func (c *call) asks() (list []steps.Step) {
	if c.task.Program == nil || c.task.Status != tasks.InputRequired || c.task.Cancelling {
		return nil
	}
	for _, q := range c.task.Questions {
		if c.router.Routes(c.task.Program.Routing(q.ID), &dialect.Caller{})&steps.RoutePage != 0 {
			list = append(list, q)
		}
	}
	return list
}

// question is the one that the page asks now, or nil.
func (c *call) question() *steps.Step {
	if list := c.asks(); len(list) > 0 {
		return &list[0]
	}
	return nil
}

// page is how the call stands.
func (c *call) page() *page {
	shown := &page{
		Title: c.tool() + " asks you", Tool: c.tool(), Person: c.person(c.link.Principal), Called: moment{c.task.Created},
		Server: c.server(),
	}
	q := c.question()
	if q != nil {
		shown.Question = c.asked(q)
	} else {
		shown.Title, shown.State, shown.Again = c.state()
	}
	switch {
	case c.task.Status.Ended(), c.task.Cancelling:
	case c.task.Final:
		shown.Alert = relay.TooLate
	default:
		shown.Stop = c.link.token("")
	}
	return shown
}

// server is what the server is called.
func (p *Pages) server() string { return cmp.Or(p.host.Info.Title, p.host.Info.Name) }

// asked is a question as the page asks it.
func (c *call) asked(q *steps.Step) *question {
	asked := &question{
		ID: q.ID, Token: c.link.token(q.ID), Others: len(c.task.Questions) - 1, Consent: c.task.Program.Routing(q.ID).Consent, Fields: fieldsOf(q),
	}
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
func (c *call) state() (title, text string, again bool) {
	const back = " Go back to the chat, and say that it can go on."
	tool := c.tool()
	switch t := c.task; {
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

// moment is a time as pages show it.
type moment struct{ time.Time }

// String is for people, Stamp for machines.
func (m moment) String() string { return m.UTC().Format("2 January 2006, 15:04 UTC") }
func (m moment) Stamp() string  { return m.UTC().Format(time.RFC3339) }

// More says how many questions are open besides the first.
func (q *question) More() string {
	if q.Others == 1 {
		return "One more question is open."
	}
	return strconv.Itoa(q.Others) + " more questions are open."
}
