// Package pages has web pages on which people answer what tools ask, where the client cannot ask them. A page is of one
// call that waits elsewhere (package elsewhere). It shows what is asked, takes one answer, says what has become of it, and
// can be opened again. It is plain HTML, without scripts.
//
// The link of a page is all that it takes to answer there, as with the name of the call itself. link.go has what links are, form.go
// is the fields of forms, page.go what a page shows, and this file what requests may do.
package pages

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
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
	w    http.ResponseWriter
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
	v := &visit{Pages: p, w: w, name: strings.TrimPrefix(r.URL.Path, "/")}
	r = r.WithContext(durable.Patient(r.Context()))
	err := p.refuse(w, r)
	switch {
	case err != nil:
	case v.name == listPage || strings.HasPrefix(v.name, listPage+"/"):
		err = p.serveOthers(w, r, v.name)
	default:
		err = v.serve(r)
	}
	if err == nil || r.Context().Err() != nil {
		return
	}
	var known *refusal
	switch {
	case errors.As(err, &known):
	case errors.Is(err, tasks.ErrNotFound):
		known = errUnknown
	case errors.Is(err, turns.ErrLedger), errors.Is(err, turns.ErrNewer):
		if known = errLedger; errors.Is(err, turns.ErrNewer) {
			known = errNewer
		}
	default:
		known = errBroken
		p.host.Log.ErrorContext(r.Context(), "page not served", "error", err)
	}
	if known.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "30")
	}
	p.show(w, known.status, &page{Title: "Nothing to answer here", Alert: known.text})
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
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request) error {
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, r.Method) {
		w.Header().Set("Allow", "GET, HEAD, POST")
		return errMethod
	}
	if p.cross.Check(r) != nil {
		return errForeign
	}
	return nil
}

func (v *visit) serve(r *http.Request) error {
	ctx := r.Context()
	var err error
	if v.link, err = v.open(ctx, v.name); err != nil {
		return err
	}
	if err := v.find(ctx); err != nil {
		return err
	}
	if r.Method == http.MethodPost {
		return v.post(r)
	}
	if err := v.rest(ctx); err != nil {
		return err
	}
	shown := v.page()
	if r.URL.Query().Has(taken) {
		shown.Note = "Your answer was taken."
	}
	v.show(v.w, http.StatusOK, shown)
	return nil
}

// find finds the call, and shows that it is wanted, so that it waits for longer.
func (v *visit) find(ctx context.Context) (err error) {
	patience := v.host.Turns.Codec.Options().TTL
	if v.task, err = v.host.Tasks.Renew(ctx, v.link.Principal, v.link.Task, patience, nil); err != nil {
		return err
	}
	if !dialect.NoteOf(v.task).Elsewhere {
		return errUnknown
	}
	if !v.task.Status.Ended() {
		_, err = v.Link(ctx, v.link.Principal, v.link.Task, v.host.Turns.Now().Add(patience))
	}
	return err
}

// rest waits a moment while the tool works.
func (v *visit) rest(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	defer context.AfterFunc(v.host.Draining, cancel)()
	for news, err := range v.host.Tasks.Follow(within, v.link.Principal, v.link.Task, tasks.NoEvents, nil) {
		switch {
		case err != nil && within.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case news.Task != nil:
			if v.task = news.Task; v.task.Status == tasks.InputRequired || v.task.Status.Ended() {
				return nil
			}
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
func (p *Pages) readForm(w http.ResponseWriter, r *http.Request, principal string) (done func(), err error) {
	x := &dialect.Exchange{Message: new(wire.Message), Header: r.Header, Principal: principal, Account: p.account(r, principal)}
	defer func() { done = x.Large.Leave }()
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, errType
	}
	body, rerr := p.host.ReadBody(w, r, x)
	switch {
	case rerr == nil:
		if r.PostForm, err = url.ParseQuery(string(body)); err == nil { // it takes 10,000 fields at most
			return nil, nil
		}
	case rerr.Status == http.StatusRequestEntityTooLarge:
		return nil, errLarge
	case rerr.RetryAfter > 0:
		return nil, errBusy
	}
	return nil, errBody
}

// post does what was asked by a form.
func (v *visit) post(r *http.Request) error {
	done, err := v.readForm(v.w, r, "")
	defer done()
	if err != nil {
		return err
	}
	id := r.PostForm.Get(formQuestion)
	if !v.link.holds(r.PostForm.Get(formToken), id) {
		return errForm
	}
	switch do := r.PostForm.Get(formDo); do {
	case doStop:
		return v.stop(r.Context())
	case doAccept, doDecline:
		return v.answer(r, id, do)
	}
	return errForm
}

// stop gives the call up.
func (v *visit) stop(ctx context.Context) error {
	if _, err := v.host.Tasks.Cancel(ctx, v.link.Principal, v.link.Task); err != nil {
		return err
	}
	v.host.Log.InfoContext(ctx, "call stopped on a page", "tool", v.tool())
	seeOther(v.w, v.name)
	return nil
}

// answer gives the call an answer, and leads to the page of what comes of it.
func (v *visit) answer(r *http.Request, id, do string) error {
	ctx := r.Context()
	if v.task.Program == nil && !v.task.Status.Ended() {
		return v.host.Turns.Report(ctx, "page", turns.ErrNewer)
	}
	q := v.question()
	if q == nil || q.ID != id {
		return v.tooLate(ctx)
	}
	a := steps.Answer{StepID: id, By: elsewhere.ByPage, Result: []byte(`{"action":"decline"}`)}
	if do == doAccept {
		fields := fieldsOf(q)
		content, fits := fields.read(r.PostForm)
		if !fits {
			return v.misfit(v.w, v.page(), fields)
		}
		var err error
		if a.Result, err = wire.Marshal(accepted{doAccept, content}); err != nil {
			return err
		}
	}
	now, err := v.host.Tasks.AnswerFound(ctx, v.link.Principal, v.task, []steps.Answer{a})
	var refused *engine.AnswerError
	switch {
	case errors.As(err, &refused):
		return &refusal{http.StatusUnprocessableEntity, "The answer was not taken: " + refused.Reason + "."}
	case err != nil:
		return err
	case now != nil:
		return v.tooLate(ctx)
	}
	v.host.Log.InfoContext(ctx, "question answered on a page", "tool", v.tool(), "step", id, "action", do)
	seeOther(v.w, v.name+"?"+taken)
	return nil
}

// accepted is an ElicitResult.
type accepted struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitzero"`
}

// tooLate shows how the call stands to a person whose question is not open any more.
func (v *visit) tooLate(ctx context.Context) error {
	if err := v.rest(ctx); err != nil {
		return err
	}
	return v.late(v.w, v.page())
}

// misfit shows a page again with what was filled in, and why that does not fit.
func (p *Pages) misfit(w http.ResponseWriter, shown *page, filled fields) error {
	shown.Title, shown.Question.Fields = "Error: "+shown.Title, filled
	p.show(w, http.StatusUnprocessableEntity, shown)
	return nil
}

// late shows a page that takes no answer any more.
func (p *Pages) late(w http.ResponseWriter, shown *page) error {
	shown.Alert = "Your answer was not taken: this question had been answered before, or is not asked any more."
	p.show(w, http.StatusConflict, shown)
	return nil
}

// seeOther has the browser open a page beside this one, so that to reload it sends nothing again. The path by which
// this handler is reached is not known here.
func seeOther(w http.ResponseWriter, page string) {
	w.Header().Set("Location", page)
	w.WriteHeader(http.StatusSeeOther)
}
