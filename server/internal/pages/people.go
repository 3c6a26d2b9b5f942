package pages

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Others than the caller of a tool answer on pages below one that lists what waits for them. Who they are is asked with
// each request. A person who may not answer a question is shown nothing of it.

const (
	// listPage is the page with the list. The page of a question is below it.
	listPage = "waiting"
	// listed is how many questions the list shows at once.
	listed = 25
	// after is in the query of a part of the list.
	after = "after"
)

// Person is who sends a request.
type Person struct {
	// Subject is who that is; empty if that is not known. Names are those that the person may answer as.
	Subject string
	Names   []string
	// Principal is the caller as which the person has signed in.
	Principal string
	// From is where the request came from.
	From string
}

// Who finds out who sends a request. It fails with a *[wire.Error] if the person is not let in, and with another error if
// it cannot be found out now.
type Who func(*http.Request) (Person, error)

var (
	errNobody = &refusal{http.StatusUnauthorized, "This page is for people whom the server knows. Sign in, and open it again."}
	errWrong  = &refusal{http.StatusForbidden, "This is not for you to answer, so it is not shown. If you think that it is, sign in as who may, or tell the operator of this server."}
	errMayNot = &refusal{http.StatusForbidden, "You may not open pages of this server. If you think that you may, tell its operator."}
	errSelf   = &refusal{http.StatusForbidden, "This was asked for in your own name, so another person has to answer it."}
	// A tool may give the link away before it asks.
	errNotAsked = &refusal{http.StatusNotFound, "Nothing is asked here at present. If the link is complete, it may be asked in a while, or it was answered or given up some time ago: open it again later."}
	errWho      = &refusal{http.StatusServiceUnavailable, "The server cannot find out at the moment what you may answer. Try again in a minute: nothing is lost."}
)

// waiting is an entry of the list.
type waiting struct {
	URL, Tool, Person, Message string
	Until                      moment
}

// other is a visit of a person whose name the server knows.
type other struct {
	visit
	who   Person
	mark  []byte // a secret of the ledger's
	asked *durable.Asked
}

// serve serves the list, or what is below it.
func (o *other) serve(name string) (err error) {
	if o.Pages.who == nil {
		return errUnknown
	}
	ctx := o.r.Context()
	if err := o.identify(); err != nil {
		return err
	}
	name, below := strings.CutPrefix(name, listPage+"/")
	switch {
	case !below && o.r.Method == http.MethodPost:
		return errMethod
	case !below:
		return o.list()
	}
	if o.asked, err = o.host.Core.FindAsked(ctx, name); errors.Is(err, tasks.ErrNotFound) {
		return errNotAsked
	} else if err != nil {
		return err
	}
	if o.mark, err = o.host.Core.Mark(ctx); err != nil {
		return err
	}
	if err := o.may(o.asked); err != nil {
		return err
	}
	if o.r.Method == http.MethodPost {
		return o.post()
	}
	return o.open(o.page())
}

// identify finds out who the person is.
func (o *other) identify() (err error) {
	var refused *wire.Error
	switch o.who, err = o.Pages.who(o.r); {
	case errors.As(err, &refused):
		if refused.Challenge != "" {
			o.w.Header().Set("WWW-Authenticate", refused.Challenge)
		}
		switch refused.Status {
		case http.StatusUnauthorized:
			return errNobody
		case http.StatusForbidden:
			return errMayNot
		}
		return errWho
	case err != nil:
		o.host.Log.WarnContext(o.r.Context(), "it cannot be found out what a person may answer", "error", err)
		return errWho
	case o.who.Subject == "":
		return errNobody
	}
	return nil
}

// may fails if the person may not answer a question.
func (o *other) may(a *durable.Asked) error {
	if !slices.ContainsFunc(a.By, func(name string) bool { return slices.Contains(o.who.Names, name) }) {
		return errWrong
	}
	if caller := o.person(a.Principal); !a.AllowCaller && (caller == "" || caller == o.who.Subject) { // who is not known may be anybody
		return errSelf
	}
	return nil
}

// list shows what waits for the person.
func (o *other) list() error {
	list, next, err := o.host.Core.WaitingFor(o.r.Context(), o.who.Names, o.r.URL.Query().Get(after), listed)
	if errors.Is(err, tasks.ErrCursor) {
		return errUnknown
	}
	if err != nil {
		return err
	}
	shown := &page{Title: "Waiting for your answer", State: "Nothing waits for you here."}
	for _, a := range list {
		if o.may(a) != nil {
			continue
		}
		e := waiting{URL: listPage + "/" + a.Name, Tool: toolOf(a), Person: o.person(a.Principal), Until: moment{a.Until}}
		message, _ := jsonview.String(jsonview.Get(a.Step.Params, "message"))
		e.Message = clipped(message)
		shown.Waiting = append(shown.Waiting, e)
	}
	if len(shown.Waiting) > 0 {
		shown.State = ""
	}
	if next != "" {
		shown.More, shown.State = "?"+url.Values{after: {next}}.Encode(), ""
	}
	o.show(http.StatusOK, shown)
	return nil
}

// clipped is what the list shows of a message.
func clipped(text string) string {
	const most = 200
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func toolOf(a *durable.Asked) string {
	if a.Program == nil {
		return a.Tool
	}
	return cmp.Or(a.Program.Title, a.Program.Name)
}

// page is how the question stands.
func (o *other) page() *page {
	a, tool := o.asked, toolOf(o.asked)
	shown := &page{Title: tool + " asks for your answer", Tool: tool, Person: o.person(a.Principal), Server: o.server(), Back: "../" + listPage}
	switch {
	case a.Open && a.Program == nil:
		shown.Title, shown.State, shown.Again = tool+" waits", "This server cannot take an answer to it at present.", true
	case a.Open:
		shown.Question = &question{ID: a.Step.ID, Token: o.token(), Consent: true, Fields: fieldsOf(&a.Step), Until: moment{a.Until}.String()}
		shown.Question.Message, _ = jsonview.String(jsonview.Get(a.Step.Params, "message"))
	case a.Who != "":
		what := map[string]string{doAccept: "It was agreed to", doDecline: "It was declined"}[a.Action]
		by := "by " + a.Who
		if a.Who == o.who.Subject {
			by = "by you"
		}
		shown.Title, shown.State = tool+" has its answer", what+" "+by+" on "+moment{a.At}.String()+"."
	default:
		shown.Title, shown.State = tool+" does not wait any more", "It is not asked any more: its time is over, or it was stopped."
	}
	return shown
}

// token is what the form has: the question in these words, and for this person alone.
func (o *other) token() string {
	var text []byte
	for _, part := range []string{"form for others", o.asked.Name, o.who.Subject, string(o.asked.Step.Params)} {
		sum := sha256.Sum256([]byte(part))
		text = append(text, sum[:]...)
	}
	return mac(o.mark, string(text))
}

// post takes the answer of a person.
func (o *other) post() error {
	done, err := o.readForm(o.who.Principal)
	defer done()
	if err != nil {
		return err
	}
	ctx, form := o.r.Context(), o.r.PostForm
	a, do := o.asked, form.Get(formDo)
	switch {
	case !a.Open:
		return o.tooLate(ctx)
	case do != doAccept && do != doDecline, form.Get(formQuestion) != a.Step.ID, !hmac.Equal([]byte(form.Get(formToken)), []byte(o.token())):
		return errForm
	case a.Program == nil:
		return o.host.Turns.Report(ctx, "page", turns.ErrNewer)
	}
	content, fits, err := o.content(&a.Step, o.page())
	if err != nil || !fits {
		return err
	}
	err = o.host.Core.AnswerAsked(ctx, a, durable.PersonAnswer{Action: do, By: o.who.Subject, From: o.who.From, Content: content})
	var wrong *durable.ValueError
	switch {
	case errors.Is(err, durable.ErrEventOther), errors.Is(err, durable.ErrEventGone):
		return o.tooLate(ctx)
	case errors.As(err, &wrong):
		return notTaken(wrong.Err.Error())
	case err != nil:
		return err
	}
	o.host.Log.InfoContext(ctx, "question answered by another person", "tool", a.Tool, "step", a.Step.ID, "action", do, "by", o.who.Subject, "from", o.who.From)
	return o.seeOther(a.Name + "?" + taken)
}

// tooLate says who was first, if there was one.
func (o *other) tooLate(ctx context.Context) (err error) {
	if o.asked, err = o.host.Core.FindAsked(ctx, o.asked.Name); err != nil {
		return err
	}
	return o.late(o.page())
}
