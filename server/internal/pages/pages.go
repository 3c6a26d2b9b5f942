// Package pages has web pages on which people answer what tools ask, where the client cannot ask them. A page is of one
// call that waits elsewhere (package elsewhere). It shows what is asked, takes one answer, says what has become of it, and
// can be opened again. It is plain HTML, without scripts.
//
// The link of a page is all that it takes to answer there, as with the name of the call itself. link.go has what links are, form.go
// is the fields of forms, page.go what a page shows, and this file what requests may do.
package pages

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

//go:embed page.html
var layout string

//go:embed page.css
var style string

// holdTime is how long a request waits for what comes of an answer before it says that the tool works.
const holdTime = 3 * time.Second

// Pages serves the pages of a server. It implements [dialect.Pages].
type Pages struct {
	host    *dialect.Host
	router  *elsewhere.Router
	url     string
	person  func(principal string) string
	who     Who                                            // nil if callers alone answer
	account func(r *http.Request, principal string) string // as of [dialect.Exchange]
	layout  *template.Template
	policy  string
	cross   *http.CrossOriginProtection
}

var _ dialect.Pages = (*Pages)(nil)

// New returns the pages of a host with a ledger. url is where they are, without a slash at the end. person is what a
// principal is called; empty if it has no name. who is nil if callers alone answer.
func New(h *dialect.Host, url string, person func(principal string) string, who Who, account func(r *http.Request, principal string) string) (*Pages, error) {
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	hash := sha256.Sum256([]byte(style))
	return &Pages{
		host: h, router: elsewhere.New(h), url: url, person: person, who: who, account: account, layout: t, cross: http.NewCrossOriginProtection(),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	}, nil
}

// What a form may ask to be done.
const (
	doAccept  = "accept"
	doDecline = "decline"
	doStop    = "stop"
)

// visit is a request for a page.
type visit struct {
	*Pages
	w http.ResponseWriter
	r *http.Request
}

// call is a visit of the page of a call.
type call struct {
	visit
	name string // of the link
	link *link
	task *tasks.Task
}

// refusal is why a request gets no page of a call: what its sender reads, and the status.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

var (
	errUnknown = &refusal{http.StatusNotFound, "There is nothing at this link: it is not complete, or what it was for was over some time ago."}
	errForeign = &refusal{http.StatusForbidden, "This was not sent from the page itself, so nothing was done. Open your link, and answer there."}
	errForm    = &refusal{http.StatusForbidden, "This form is not of this page, so nothing was done. Open your link again, and answer there."}
	errMethod  = &refusal{http.StatusMethodNotAllowed, "A page can be opened, and its form sent. Nothing was done."}
	errType    = &refusal{http.StatusUnsupportedMediaType, "Only what the form of this page sends can be read. Nothing was done."}
	errLarge   = &refusal{http.StatusRequestEntityTooLarge, "The answer is too large, so it was not taken. Go back, and make it shorter."}
	errBody    = &refusal{http.StatusBadRequest, "The answer could not be read, so it was not taken. Go back, and send it again."}
	errBusy    = &refusal{http.StatusServiceUnavailable, "The server has too much to do at the moment, so your answer was not taken. Go back, and send it again in a minute: nothing is lost."}
	errLedger  = &refusal{http.StatusServiceUnavailable, "The server cannot look this up at the moment. Try again in a minute: nothing is lost."}
	errNewer   = &refusal{http.StatusServiceUnavailable, "A newer server continues this, so your answer was not taken here. Go back, and send it again in a minute: nothing is lost."}
	errBroken  = &refusal{http.StatusInternalServerError, "Something went wrong in the server. Try again; if it happens again, tell its operator."}
)

// ServeHTTP implements [http.Handler]. The path of a page is its name.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.protect(w.Header())
	r = r.WithContext(durable.Patient(r.Context()))
	v, name := visit{p, w, r}, strings.TrimPrefix(r.URL.Path, "/")
	err := v.refuse()
	switch {
	case err != nil:
	case name == listPage || strings.HasPrefix(name, listPage+"/"):
		err = (&other{visit: v}).serve(name)
	default:
		err = (&call{visit: v, name: name}).serve()
	}
	if err == nil || r.Context().Err() != nil {
		return
	}
	var known *refusal
	switch {
	case errors.As(err, &known):
	case errors.Is(err, tasks.ErrNotFound):
		known = errUnknown
	case errors.Is(err, turns.ErrNewer):
		known = errNewer
	case errors.Is(err, turns.ErrLedger):
		known = errLedger
	default:
		known = errBroken
		p.host.Log.ErrorContext(r.Context(), "page not served", "error", err)
	}
	if known.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "30")
	}
	v.show(known.status, &page{Title: "Nothing to answer here", Alert: known.text})
}

// protect has browsers keep the page apart from all others, and from themselves once it is closed.
func (p *Pages) protect(h http.Header) {
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex, nofollow")
}

// refuse fails if a request is none that a page makes.
func (v *visit) refuse() error {
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, v.r.Method) {
		v.w.Header().Set("Allow", "GET, HEAD, POST")
		return errMethod
	}
	if v.cross.Check(v.r) != nil {
		return errForeign
	}
	return nil
}

// open shows a page that was opened.
func (v *visit) open(shown *page) error {
	if v.r.URL.Query().Has(taken) {
		shown.Note = "Your answer was taken."
	}
	v.show(http.StatusOK, shown)
	return nil
}

func (c *call) serve() (err error) {
	ctx := c.r.Context()
	if c.link, err = c.linkOf(ctx, c.name); err != nil {
		return err
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	if c.r.Method == http.MethodPost {
		return c.post()
	}
	if err := c.rest(ctx); err != nil {
		return err
	}
	return c.open(c.page())
}

// find finds the call, and shows that it is wanted, so that it waits for longer.
func (c *call) find(ctx context.Context) (err error) {
	patience := c.host.Turns.Codec.Options().TTL
	if c.task, err = c.host.Tasks.Renew(ctx, c.link.Principal, c.link.Task, patience, nil); err != nil {
		return err
	}
	if !dialect.NoteOf(c.task).Elsewhere {
		return errUnknown
	}
	if !c.task.Status.Ended() {
		_, err = c.Link(ctx, c.link.Principal, c.link.Task, c.host.Turns.Now().Add(patience))
	}
	return err
}

// rest waits a moment while the tool works.
func (c *call) rest(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	defer context.AfterFunc(c.host.Draining, cancel)()
	for news, err := range c.host.Tasks.Follow(within, c.link.Principal, c.link.Task, tasks.NoEvents, nil) {
		if err != nil && within.Err() == nil {
			return err
		}
		if err != nil {
			break
		}
		if c.task = news.Task; c.task.Status == tasks.InputRequired || c.task.Status.Ended() {
			return nil
		}
	}
	return ctx.Err()
}

// Members of forms, besides the fields.
const (
	formQuestion = "question"
	formToken    = "token"
	formDo       = "do"
	// taken is in the query of a page that is shown when an answer was taken.
	taken = "taken"
)

// readForm reads what a form has sent. A large one takes a place, which done gives back.
func (v *visit) readForm(principal string) (done func(), err error) {
	x := &dialect.Exchange{Message: new(wire.Message), Header: v.r.Header, Principal: principal, Account: v.account(v.r, principal)}
	defer func() { done = x.Large.Leave }()
	if kind, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, errType
	}
	body, rerr := v.host.ReadBody(v.w, v.r, x)
	switch {
	case rerr == nil:
		if v.r.PostForm, err = url.ParseQuery(string(body)); err == nil { // it takes 10,000 fields at most
			return nil, nil
		}
	case rerr.Status == http.StatusRequestEntityTooLarge:
		return nil, errLarge
	case rerr.RetryAfter > 0:
		return nil, errBusy
	}
	return nil, errBody
}

// content is what a form has for the fields of a question, nil if that is declined. If it does not fit, the page is shown again
// with what was filled in, and why.
func (v *visit) content(q *steps.Step, shown *page) (content json.RawMessage, fits bool, err error) {
	if v.r.PostForm.Get(formDo) == doDecline {
		return nil, true, nil
	}
	filled := fieldsOf(q)
	values, fits := filled.read(v.r.PostForm)
	if !fits {
		shown.Title, shown.Question.Fields = "Error: "+shown.Title, filled
		v.show(http.StatusUnprocessableEntity, shown)
		return nil, false, nil
	}
	content, err = wire.Marshal(values)
	return content, true, err
}

// late shows a page that takes no answer any more.
func (v *visit) late(shown *page) error {
	shown.Alert = "Your answer was not taken: this question had been answered before, or is not asked any more."
	v.show(http.StatusConflict, shown)
	return nil
}

// seeOther has the browser open a page beside this one, so that to reload it sends nothing again. The path by which
// this handler is reached is not known here.
func (v *visit) seeOther(page string) error {
	v.w.Header().Set("Location", page)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// post does what was asked by a form.
func (c *call) post() error {
	done, err := c.readForm("")
	defer done()
	if err != nil {
		return err
	}
	id, do := c.r.PostForm.Get(formQuestion), c.r.PostForm.Get(formDo)
	switch {
	case !hmac.Equal([]byte(c.r.PostForm.Get(formToken)), []byte(c.link.token(id))):
		return errForm
	case do == doStop:
		return c.stop()
	case do == doAccept, do == doDecline:
		return c.answer(id, do)
	}
	return errForm
}

// stop gives the call up.
func (c *call) stop() error {
	ctx := c.r.Context()
	if _, err := c.host.Tasks.Cancel(ctx, c.link.Principal, c.link.Task); err != nil {
		return err
	}
	c.host.Log.InfoContext(ctx, "call stopped on a page", "tool", c.tool())
	return c.seeOther(c.name)
}

// answer gives the call an answer, and leads to the page of what comes of it.
func (c *call) answer(id, do string) error {
	ctx := c.r.Context()
	if c.task.Program == nil && !c.task.Status.Ended() {
		return c.host.Turns.Report(ctx, "page", turns.ErrNewer)
	}
	q := c.question()
	if q == nil || q.ID != id {
		return c.tooLate(ctx)
	}
	content, fits, err := c.content(q, c.page())
	if err != nil || !fits {
		return err
	}
	a := steps.Answer{StepID: id, By: elsewhere.ByPage}
	if a.Result, err = wire.Marshal(elicited{do, content}); err != nil {
		return err
	}
	now, err := c.host.Tasks.AnswerFound(ctx, c.link.Principal, c.task, []steps.Answer{a})
	var refused *engine.AnswerError
	switch {
	case errors.As(err, &refused):
		return notTaken(refused.Reason)
	case err != nil:
		return err
	case now != nil:
		return c.tooLate(ctx)
	}
	c.host.Log.InfoContext(ctx, "question answered on a page", "tool", c.tool(), "step", id, "action", do)
	return c.seeOther(c.name + "?" + taken)
}

// elicited is an ElicitResult.
type elicited struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitzero"`
}

func notTaken(reason string) error {
	return &refusal{http.StatusUnprocessableEntity, "The answer was not taken: " + reason + "."}
}

// tooLate shows how the call stands to a person whose question is not open any more.
func (c *call) tooLate(ctx context.Context) error {
	if err := c.rest(ctx); err != nil {
		return err
	}
	return c.late(c.page())
}
