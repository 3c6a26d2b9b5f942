package server_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// pagesAt is where the pages of tests are. The port is another one, which only the test knows.
const pagesAt = "http://127.0.0.1/ask"

// newPagesRig is a server with pages, whose callers are told apart.
func newPagesRig(t *testing.T, change ...func(*server.Options)) *rig {
	t.Helper()
	o := server.Options{Ledger: inMemory(t), Authenticate: users, Questions: server.Questions{PageURL: pagesAt}}
	for _, f := range change {
		f(&o)
	}
	return newRig(t, o)
}

func offering(tools ...saga.Definition) func(*server.Options) {
	return func(o *server.Options) { o.Tools = tools }
}

// opened is a page as a browser has it.
type opened struct {
	status int
	header http.Header
	body   string
}

// page opens the page of a link.
func (r *rig) page(link string) opened {
	r.t.Helper()
	return r.browse(http.MethodGet, link, nil, nil)
}

// browse sends what a browser would, and follows no redirection.
func (r *rig) browse(method, link string, form url.Values, change func(*http.Request)) opened {
	r.t.Helper()
	path, ours := strings.CutPrefix(link, "http://127.0.0.1")
	require.True(r.t, ours, link)
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(form.Encode()))
	require.NoError(r.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		req.Header.Set("Origin", "null")
	}
	if change != nil {
		change(req)
	}
	client := *r.client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return opened{resp.StatusCode, resp.Header, string(body)}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// form is the form of a page with the button do, filled with fields: pairs of names and values.
func (p opened) form(t testing.TB, do string, fields ...string) url.Values {
	t.Helper()
	for _, part := range strings.Split(p.body, "<form ")[1:] {
		if part, _, _ = strings.Cut(part, "</form>"); !strings.Contains(part, `name="do" value="`+do+`"`) {
			continue
		}
		form := url.Values{"do": {do}}
		for _, m := range hidden.FindAllStringSubmatch(part, -1) {
			form.Set(m[1], html.UnescapeString(m[2]))
		}
		for i := 0; i < len(fields); i += 2 {
			require.Contains(t, part, `name="`+fields[i]+`"`)
			form.Add(fields[i], fields[i+1])
		}
		return form
	}
	require.Fail(t, "the page has no such form", "%s: %s", do, p.body)
	return nil
}

// answer sends the form of a page, and opens the page to which that leads.
func (r *rig) answer(link string, form url.Values) opened {
	r.t.Helper()
	sent := r.browse(http.MethodPost, link, form, nil)
	require.Equal(r.t, http.StatusSeeOther, sent.status, sent.body)
	to, err := url.Parse(link)
	require.NoError(r.t, err)
	to, err = to.Parse(sent.header.Get("Location"))
	require.NoError(r.t, err)
	next := r.page(to.String())
	require.Equal(r.t, http.StatusOK, next.status, next.body)
	return next
}

// waitsFor calls a tool as a client that cannot be asked, and returns what it is told.
func (r *rig) waitsFor(q *request, as string) waits {
	r.t.Helper()
	q.header.Set("User", as)
	return waitsOf(r.t.(*testing.T), r.send(q).Result)
}

// consent asks whether to act.
var consent = &steps.Form[struct{}]{ID: "consent", Message: "Delete the old copies?", Consent: true}

// consents is a tool that asks only that.
func consents() saga.Flow[struct{}, string] {
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "consents", Title: "Tidy up", Asks: []steps.Question{consent}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Ask(r, consent)
			return "deleted", err
		},
	}
}

func shows(t testing.TB, p opened, texts ...string) {
	t.Helper()
	for _, text := range texts {
		assert.Contains(t, html.UnescapeString(p.body), text)
	}
}
