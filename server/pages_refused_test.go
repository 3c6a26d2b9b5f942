package server_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// Links that are made up, cut off, of another deployment or of what is no call that waits here lead nowhere, all alike.
func TestUnknownPages(t *testing.T) {
	store, keys := inMemory(t), newKeys(t)
	shared := func(audience string) func(*server.Options) {
		return func(o *server.Options) {
			o.Tools, o.Ledger, o.Keys, o.Audience = append(taskTools(), consents()), store, keys, audience
		}
	}
	r, other := newPagesRig(t, shared("one")), newPagesRig(t, shared("two"))
	first := r.waitsFor(callTool("consents", object{}), "ann")
	name := strings.TrimPrefix(first.URL, pagesAt+"/")
	none := r.page(pagesAt + "/" + strings.Repeat("A", len(name)))
	assert.Equal(t, http.StatusNotFound, none.status)
	task := r.begin(callTool("twice", nil).with(withTasks))
	for what, p := range map[string]opened{
		"cut off":            r.page(first.URL[:len(first.URL)-1]),
		"longer":             r.page(first.URL + "A"),
		"deeper":             r.page(first.URL + "/x"),
		"the root":           r.page(pagesAt + "/"),
		"the call's name":    r.page(pagesAt + "/" + first.ResumeToken),
		"a task's name":      r.page(pagesAt + "/" + task.TaskID),
		"another deployment": other.page(first.URL),
		"a form for none":    r.browse(http.MethodPost, pagesAt+"/"+strings.Repeat("A", len(name)), url.Values{"do": {"accept"}}, nil),
	} {
		assert.Equal(t, http.StatusNotFound, p.status, what)
		assert.Equal(t, none.body, p.body, what)
	}
	assert.Equal(t, http.StatusOK, r.page(first.URL).status)
}

// Requests that the page itself does not make do nothing.
func TestPagesRefuse(t *testing.T) {
	r := newPagesRig(t, offering(consents()), func(o *server.Options) { o.MaxBody = 2 << 10 })
	link := r.waitsFor(callTool("consents", object{}), "ann").URL
	other := r.waitsFor(callTool("consents", object{}), "ann").URL
	require.NotEqual(t, link, other)
	form := r.page(link).form(t, "accept")
	with := func(name, value string) url.Values {
		changed := url.Values{}
		for k, v := range form {
			changed[k] = v
		}
		changed.Set(name, value)
		return changed
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, c := range []struct {
		what, method string
		form         url.Values
		change       func(*http.Request)
		status       int
	}{
		{"another site", http.MethodPost, form, set("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"another name of the site", http.MethodPost, form, set("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		{"an old browser at another site", http.MethodPost, form, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "https://evil.example.com")
		}, http.StatusForbidden},
		{"another host", http.MethodPost, form, func(r *http.Request) { r.Host = "evil.example.com" }, http.StatusForbidden},
		{"another host, to read", http.MethodGet, nil, func(r *http.Request) { r.Host = "evil.example.com" }, http.StatusForbidden},
		{"no token", http.MethodPost, with("token", ""), nil, http.StatusForbidden},
		{"a token of another page", http.MethodPost, with("token", r.page(other).form(t, "accept").Get("token")), nil, http.StatusForbidden},
		{"a token for another question", http.MethodPost, with("question", "other"), nil, http.StatusForbidden},
		{"a token to stop", http.MethodPost, with("token", r.page(link).form(t, "stop").Get("token")), nil, http.StatusForbidden},
		{"nothing to do", http.MethodPost, with("do", "approve"), nil, http.StatusForbidden},
		{"no form", http.MethodPost, url.Values{}, nil, http.StatusForbidden},
		{"JSON", http.MethodPost, form, set("Content-Type", "application/json"), http.StatusUnsupportedMediaType},
		{"too large", http.MethodPost, with("f0", strings.Repeat("x", 3<<10)), nil, http.StatusRequestEntityTooLarge},
		{"another method", http.MethodPut, form, nil, http.StatusMethodNotAllowed},
		{"to delete it", http.MethodDelete, nil, nil, http.StatusMethodNotAllowed},
		{"to ask what it does", http.MethodOptions, nil, nil, http.StatusMethodNotAllowed},
	} {
		p := r.browse(c.method, link, c.form, c.change)
		assert.Equal(t, c.status, p.status, "%s: %s", c.what, p.body)
		assert.Empty(t, p.header.Get("Access-Control-Allow-Origin"), c.what)
		shows(t, r.page(link), "Delete the old copies?")
	}
	assert.Equal(t, http.StatusForbidden, r.browse(http.MethodPost, other, form, nil).status, "a form of another page")
	head := r.browse(http.MethodHead, link, nil, nil)
	assert.Equal(t, http.StatusOK, head.status)
	assert.Empty(t, head.body)
	shows(t, r.answer(link, form), "The tool has completed.")
}

// What does not fit is said beside the field. It does not reach the tool, and however often it is sent, the call does not end.
func TestPagesCountNoMistakes(t *testing.T) {
	s := new(seats)
	r := newPagesRig(t, offering(s.tool()))
	first := r.waitsFor(callTool("seat", object{}), "ann")
	for range 20 {
		p := r.browse(http.MethodPost, first.URL, r.page(first.URL).form(t, "accept", "f0", " "), nil)
		require.Equal(t, http.StatusUnprocessableEntity, p.status)
		shows(t, p, "Error: is required", `aria-invalid="true"`, `<a href="#f0">`)
	}
	shows(t, r.page(first.URL), "Which row?")
}

// unread takes a page, and keeps nothing of it.
type unread struct {
	header       http.Header
	status, most int
}

func (u *unread) Header() http.Header    { return u.header }
func (u *unread) WriteHeader(status int) { u.status = status }
func (u *unread) Write(b []byte) (int, error) {
	u.most = max(u.most, len(b))
	return len(b), nil
}

// A large form that does not fit is shown again, with little at once: as HTML it is five times as long, and clients may read slowly.
func TestPagesShowLargeFormsInParts(t *testing.T) {
	o, r := newOffice(t, newApprove())
	_, link := o.asks(r)
	form := r.opensFor("fin1", link).form(t, "accept")
	for what, c := range map[string]struct{ text, shown string }{"quotes": {`"`, "&#34;"}, "letters": {"é", "é"}} {
		form.Set("f0", strings.Repeat(c.text, 100_000))
		p := r.says("fin1", link, form)
		assert.Equal(t, http.StatusUnprocessableEntity, p.status, what)
		assert.True(t, strings.Contains(p.body, ` value="`+strings.Repeat(c.shown, 100_000)+`"`), what)
		assert.Contains(t, p.body[len(p.body)-100:], "</html>", what)
		q := httptest.NewRequest(http.MethodPost, link, strings.NewReader(form.Encode()))
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Header.Set("User", "fin1")
		u := &unread{header: http.Header{}}
		r.srv.Handler().ServeHTTP(u, q)
		assert.Equal(t, http.StatusUnprocessableEntity, u.status, what)
		assert.Less(t, u.most, 32<<10, what)
	}
}

// While the ledger fails a page says that it is to be opened again, and nothing is lost.
func TestPagesWithoutTheirLedger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newTroubled(inMemory(t))
		r := newPagesRig(t, offering(consents()), func(o *server.Options) { o.Ledger = store })
		link := r.waitsFor(callTool("consents", object{}), "ann").URL
		form := r.page(link).form(t, "accept")
		store.setDown(true)
		for _, p := range []opened{r.page(link), r.browse(http.MethodPost, link, form, nil)} {
			assert.Equal(t, http.StatusServiceUnavailable, p.status, p.body)
			assert.NotEmpty(t, p.header.Get("Retry-After"))
			shows(t, p, "nothing is lost")
		}
		store.setDown(false)
		shows(t, r.answer(link, form), "The tool has completed.")
	})
}
