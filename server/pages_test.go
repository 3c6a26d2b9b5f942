package server_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// People answer on a page what a client cannot ask, and the next call has the result. The page may be opened again at any time.
func TestPagesAreAnswered(t *testing.T) {
	s := new(seats)
	r := newPagesRig(t, offering(s.tool()))
	first := r.waitsFor(callTool("seat", object{}), "ann")
	require.True(t, strings.HasPrefix(first.URL, pagesAt+"/"), first.URL)
	assert.Contains(t, first.Message, first.URL)

	shown := r.page(first.URL)
	assert.Equal(t, http.StatusOK, shown.status)
	shows(t, shown, "seat asks you", "Which row?", "for <strong dir=\"auto\">ann</strong>", "mcpsaga")
	next := r.answer(first.URL, shown.form(t, "accept", "f0", "7"))
	shows(t, next, "Your answer was taken.", "Sure?")
	shows(t, r.page(first.URL), "Sure?")

	again := r.waitsFor(callTool("seat", object{"resumeToken": first.ResumeToken}), "ann")
	assert.Equal(t, first.URL, again.URL, "the same call has the same link")
	assert.Equal(t, "sure", again.Questions[0].ID)

	end := r.answer(first.URL, next.form(t, "accept", "f0", "0"))
	shows(t, end, "Your answer was taken.", "The tool has completed.")
	shows(t, r.page(first.URL), "The tool has completed.")
	q := callTool("seat", object{"resumeToken": first.ResumeToken})
	q.header.Set("User", "ann")
	result := r.send(q)
	assert.Equal(t, "seat in 7", result.result(t).text(), result.raw)
}

// The page of a call is the same at all replicas, and what is answered at one of them is done.
func TestPagesOfAnyReplica(t *testing.T) {
	s, store, keys := new(seats), inMemory(t), newKeys(t)
	shared := func(o *server.Options) { o.Tools, o.Ledger, o.Keys = []saga.Definition{s.tool()}, store, keys }
	one, two := newPagesRig(t, shared), newPagesRig(t, shared)
	first := one.waitsFor(callTool("seat", object{}), "ann")
	next := two.answer(first.URL, one.page(first.URL).form(t, "accept", "f0", "7"))
	again := one.waitsFor(callTool("seat", object{"resumeToken": first.ResumeToken}), "ann")
	assert.Equal(t, first.URL, again.URL)
	shows(t, one.answer(first.URL, next.form(t, "accept", "f0", "0")), "The tool has completed.")
	held, calls := s.now()
	assert.Equal(t, []int{1, 1}, []int{held, calls})
}

// What a person declines, the tool is told.
func TestPagesDecline(t *testing.T) {
	r := newPagesRig(t, offering(consents()))
	first := r.waitsFor(callTool("consents", object{}), "ann")
	shown := r.page(first.URL)
	shows(t, shown, "Tidy up asks you", "Delete the old copies?", "allows the tool to act", ">Agree<")
	shows(t, r.answer(first.URL, shown.form(t, "decline")), "and says that it has failed")
}

// A model cannot give a consent, but is told the link at which its user can.
func TestPagesTakeConsents(t *testing.T) {
	r := newPagesRig(t, offering(consents()))
	first := r.waitsFor(callTool("consents", object{}), "ann")
	assert.NotContains(t, first.Message, "answers:")
	relayed := r.waitsFor(callTool("consents", object{"resumeToken": first.ResumeToken, "answers": object{"consent": object{}}}), "ann")
	assert.Contains(t, relayed.Message, "must be answered by a person")
	assert.Equal(t, first.URL, relayed.URL)
	shows(t, r.answer(first.URL, r.page(first.URL).form(t, "accept")), "The tool has completed.")
}

// Whoever has the link may stop the call, and what it did is undone.
func TestPagesStop(t *testing.T) {
	s := new(seats)
	r := newPagesRig(t, offering(s.tool()))
	first := r.waitsFor(callTool("seat", object{}), "ann")
	shown := r.answer(first.URL, r.page(first.URL).form(t, "accept", "f0", "7"))
	held, _ := s.now()
	require.Equal(t, 1, held)
	late := shown.form(t, "accept", "f0", "0")
	stopped := r.answer(first.URL, shown.form(t, "stop"))
	shows(t, stopped, "It was stopped, and what it had done is undone")
	assert.NotContains(t, stopped.body, "<form")
	held, _ = s.now()
	assert.Zero(t, held)
	assert.Equal(t, http.StatusConflict, r.browse(http.MethodPost, first.URL, late, nil).status)
	shows(t, r.answer(first.URL, shown.form(t, "stop")), "It was stopped")
}

// The first of two answers counts, and who comes second is told so, whichever page or route that came by.
func TestPagesOfTwoPeople(t *testing.T) {
	s := new(seats)
	r := newPagesRig(t, offering(s.tool()))
	first := r.waitsFor(callTool("seat", object{}), "ann")
	one, two := r.page(first.URL).form(t, "accept", "f0", "7"), r.page(first.URL).form(t, "accept", "f0", "8")
	next := r.answer(first.URL, one)
	late := r.browse(http.MethodPost, first.URL, two, nil)
	assert.Equal(t, http.StatusConflict, late.status)
	shows(t, late, "Your answer was not taken: this question had been answered before", "Sure?")

	relayed := callTool("seat", object{"resumeToken": first.ResumeToken, "answers": object{"sure": object{"sure": true}}})
	relayed.header.Set("User", "ann")
	assert.Equal(t, "seat in 7", r.send(relayed).result(t).text())
	late = r.browse(http.MethodPost, first.URL, next.form(t, "accept", "f0", "1"), nil)
	assert.Equal(t, http.StatusConflict, late.status)
	shows(t, late, "Your answer was not taken", "The tool has completed.")
}

// Of many who answer at the same moment one is taken, and all others read that theirs was not.
func TestPagesOfACrowd(t *testing.T) {
	s := new(seats)
	r := newPagesRig(t, offering(s.tool()), func(o *server.Options) { o.Ledger = ledgers(t)["slow"]() }) // all look before one has answered
	first := r.waitsFor(callTool("seat", object{}), "ann")
	shown := r.page(first.URL)
	statuses := make([]int, 8)
	var crowd sync.WaitGroup
	for i := range statuses {
		form := shown.form(t, "accept", "f0", strconv.Itoa(i))
		crowd.Go(func() { statuses[i] = r.browse(http.MethodPost, first.URL, form, nil).status })
	}
	crowd.Wait()
	winner := slices.Index(statuses, http.StatusSeeOther)
	require.GreaterOrEqual(t, winner, 0, "%v", statuses)
	for i, status := range statuses {
		if i != winner {
			assert.Equal(t, http.StatusConflict, status, "%v", statuses)
		}
	}
	shows(t, r.answer(first.URL, r.page(first.URL).form(t, "accept", "f0", "0")), "The tool has completed.")
	q := callTool("seat", object{"resumeToken": first.ResumeToken})
	q.header.Set("User", "ann")
	assert.Equal(t, "seat in "+strconv.Itoa(winner), r.send(q).result(t).text())
}

// Both of two questions that are open at once are answered, one after the other.
func TestPagesOfSeveralQuestions(t *testing.T) {
	both := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "both", Asks: []steps.Question{askNick, askSure}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if err := r.AskAll(askNick, askSure); err != nil {
				return "", err
			}
			who, err := askNick.Answer(r)
			return who.Nick, err
		},
	}
	r := newPagesRig(t, offering(both))
	first := r.waitsFor(callTool("both", object{}), "ann")
	shown := r.page(first.URL)
	shows(t, shown, "What shall I call you?", "One more question is open.")
	next := r.answer(first.URL, shown.form(t, "accept", "f0", "Annie"))
	shows(t, next, "Sure?")
	assert.NotContains(t, next.body, "more question")
	shows(t, r.answer(first.URL, next.form(t, "accept", "f0", "0")), "The tool has completed.")
}

// A link of the tool's is a button beside the one that says that the page was opened.
func TestPagesLeadToLinks(t *testing.T) {
	pay := &steps.Link{ID: "pay", Message: "Pay for it.", URL: "https://pay.example.com/bill?n=7&x=1"}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pays", Asks: []steps.Question{pay}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			err := r.AskAll(pay)
			if err == nil {
				err = pay.Answer(r)
			}
			return "paid", err
		},
	}
	r := newPagesRig(t, offering(tool))
	first := r.waitsFor(callTool("pays", object{}), "ann")
	shown := r.page(first.URL)
	shows(t, shown, "Pay for it.", `href="https://pay.example.com/bill?n=7&x=1" target="_blank" rel="noopener noreferrer external"`, "Open pay.example.com in a new tab")
	shows(t, r.answer(first.URL, shown.form(t, "accept")), "The tool has completed.")
}

// The texts of tools are text on the page, whatever is in them.
func TestPagesQuoteWhatToolsSay(t *testing.T) {
	type bad struct {
		Field string `json:"field" title:"<b onclick=x>bold</b>" jsonschema:"</p><img src=x>" default:"\"><script>alert(1)</script>"`
	}
	form := &steps.Form[bad]{ID: "bad", Message: "</div><script>alert(2)</script>\nnext line"}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "bad", Title: "<i>Bad</i>", Asks: []steps.Question{form}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Ask(r, form)
			return "", err
		},
	}
	r := newPagesRig(t, offering(tool))
	shown := r.page(r.waitsFor(callTool("bad", object{}), "<u>ann</u>").URL)
	for _, markup := range []string{"<script", "<b ", "<img", "<i>", "<u>ann"} {
		assert.NotContains(t, shown.body, markup)
	}
	shows(t, shown, "<script>alert(2)</script>\nnext line", "<u>ann</u>", "<i>Bad</i> asks you")
}

// Pages load nothing, run nothing, and can be neither framed nor kept. The only style is the one whose hash is given.
func TestPagesAreSealedOff(t *testing.T) {
	r := newPagesRig(t, offering(consents()))
	link := r.waitsFor(callTool("consents", object{}), "ann").URL
	for name, p := range map[string]opened{"a page": r.page(link), "none": r.page(pagesAt + "/none")} {
		t.Run(name, func(t *testing.T) {
			_, rest, _ := strings.Cut(p.body, "<style>")
			style, _, found := strings.Cut(rest, "</style>")
			require.True(t, found)
			hash := sha256.Sum256([]byte(style))
			assert.Equal(t, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+
				"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'", p.header.Get("Content-Security-Policy"))
			for header, value := range map[string]string{
				"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
				"Content-Type": "text/html; charset=utf-8", "Cross-Origin-Opener-Policy": "same-origin",
			} {
				assert.Equal(t, value, p.header.Get(header), header)
			}
			for _, what := range []string{"<script", "style=", "onclick", "src="} {
				assert.NotContains(t, p.body, what)
			}
		})
	}
}

// A link ends when nobody looks any more, together with the call, and lasts as long as somebody does.
func TestPagesEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(seats)
		r := newPagesRig(t, offering(s.tool()), func(o *server.Options) { o.TokenTTL = 10 * time.Minute })
		link := r.waitsFor(callTool("seat", object{}), "ann").URL
		form := r.page(link).form(t, "accept", "f0", "7")
		for range 5 {
			time.Sleep(8 * time.Minute)
			shows(t, r.page(link), "Which row?")
		}
		time.Sleep(30 * time.Minute)
		late := r.page(link)
		assert.Equal(t, http.StatusNotFound, late.status)
		assert.Equal(t, http.StatusNotFound, r.browse(http.MethodPost, link, form, nil).status)
		_, calls := s.now()
		assert.Zero(t, calls)
	})
}

// Where pages are said to be must be where only their reader sees them, and they need a ledger.
func TestPageURLs(t *testing.T) {
	keys, store := newKeys(t), ledger.NewMemory(ledger.MemoryOptions{})
	defer func() { _ = store.Close() }()
	for _, c := range []struct {
		url, wrong string
		store      ledger.Store
	}{
		{"https://tools.example.com/ask", "", store},
		{"https://tools.example.com/ask/", "", store},
		{"https://ask.example.com", "", store},
		{"http://[::1]:8080/ask", "", store},
		{"http://localhost/ask", "", store},
		{"https://tools.example.com/ask", "needs Options.Ledger", nil},
		{"http://tools.example.com/ask", "must be https", store},
		{"ask", "absolute URL", store},
		{"https://ann@tools.example.com/ask", "absolute URL", store},
		{"https://tools.example.com/ask?x=1", "absolute URL", store},
		{"https://tools.example.com/{ask}", "absolute URL", store},
		{"https://tools.example.com/a//b", "absolute URL", store},
		{"javascript://tools.example.com/ask", "must be https", store},
	} {
		s, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{consents()}, Ledger: c.store, Questions: server.Questions{PageURL: c.url}})
		if c.wrong != "" {
			assert.ErrorContains(t, err, c.wrong, c.url)
			continue
		}
		if assert.NoError(t, err, c.url) {
			s.Handler()
			s.Close()
		}
	}
}

// An answer that was given on a page says so in the ledger.
func TestPagesSaySo(t *testing.T) {
	keys, store := newKeys(t), inMemory(t)
	r := newPagesRig(t, offering(consents()), func(o *server.Options) { o.Keys, o.Ledger = keys, store })
	link := r.waitsFor(callTool("consents", object{}), "ann").URL
	r.answer(link, r.page(link).form(t, "accept"))
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
	assert.Equal(t, []string{"by page"}, said)
}
