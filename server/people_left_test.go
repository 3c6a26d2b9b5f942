package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// From where a person has answered is an address: that which CallerKey returns, as addresses are written, or a network of them,
// or else that of the connection. What else tells callers apart is nobody's address.
func TestWhereOthersHaveAnswered(t *testing.T) {
	for key, want := range map[string]string{
		"": "127.0.0.1", "customer 7": "127.0.0.1", "2001:DB8::/64": "2001:db8::/64",
		"203.0.113.9": "203.0.113.9", "2001:DB8:0::7": "2001:db8::7",
	} {
		t.Run(key, func(t *testing.T) {
			office, r := newOffice(t, newApprove(), func(o *server.Options) {
				o.CallerKey = func(*http.Request) string { return key }
			})
			_, link := office.asks(r)
			form := r.opensFor("fin1", link).form(t, "accept", "f0", "70")
			r.log.take()
			require.Equal(t, http.StatusSeeOther, r.says("fin1", link, form).status)
			assert.Contains(t, r.log.take(), `"from":"`+want+`"`)
		})
	}
}

// A revision that only goes on with old sagas may still ask others, who need the pages as well.
func TestOthersOfOldRevisionsNeedPages(t *testing.T) {
	old := new(office).pays(newApprove())
	now := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Title: "Pay a bill", Revision: 1},
		Run:  func(*saga.Run, struct{}) (string, error) { return "paid", nil },
	}
	o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{now, old}, Ledger: inMemory(t), Authenticate: users}
	_, err := server.New(o)
	require.ErrorContains(t, err, `tool "pay": it asks others than its caller, for which the server needs Options.Questions.PageURL`)
	o.Questions.PageURL = pagesAt
	_, err = server.New(o)
	require.NoError(t, err)
	o.Questions.PageURL, o.Tools = "", o.Tools[:1]
	_, err = server.New(o)
	require.NoError(t, err)
}

// Who may answer is what the revision says that asks: what it asks a person is nothing for a model because a newer revision
// asks it so.
func TestOldRevisionsAreAnsweredByTheirOwnRoutes(t *testing.T) {
	keys, store := newKeys(t), inMemory(t)
	tool := func(revision uint32, consent bool) saga.Definition {
		sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?", Consent: consent}
		return saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "tidy", Asks: []steps.Question{sure}, Revision: revision},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				_, err := saga.Ask(r, sure)
				return "tidied", err
			},
		}
	}
	at := func(tools ...saga.Definition) *rig {
		return newPagesRig(t, offering(tools...), func(o *server.Options) { o.Keys, o.Ledger = keys, store })
	}
	old := tool(0, true)
	before, after := at(old), at(tool(1, false), old)
	ann := func(q *request) *request {
		q.header.Set("User", "ann")
		return q
	}
	first := before.waitsFor(callTool("tidy", object{}), "ann")
	again := waitsOf(t, after.send(ann(relay("tidy", first, object{"sure": object{"sure": true}}))).Result)
	require.NotEmpty(t, again.URL, "it is for a person, on the page")
	shown := after.page(first.URL)
	require.Equal(t, http.StatusSeeOther, after.browse(http.MethodPost, first.URL, shown.form(t, "accept", "f0", "1"), nil).status)
	assert.Equal(t, "tidied", after.send(ann(relay("tidy", first, nil))).result(t).text())
}

// During a rollout a server may be older than what asks: it says so, whatever the form has, and another one takes the answer.
func TestOlderServersTakeNoAnswersOfOthers(t *testing.T) {
	keys, store, o := newKeys(t), inMemory(t), &office{make(chan string, 100)}
	at := func(revision uint32) *rig {
		pays := o.pays(newApprove()).(saga.Flow[struct{}, string])
		pays.Revision = revision
		_, r := newOffice(t, newApprove(), func(o *server.Options) { o.Keys, o.Ledger = keys, store }, offering(pays))
		return r
	}
	older, newer := at(0), at(1)
	task, link := o.asks(newer)
	shown := newer.opensFor("fin1", link)
	for _, limit := range []string{"5", "0"} { // which does not fit
		got := older.says("fin1", link, shown.form(t, "accept", "f0", limit))
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
		assert.Contains(t, got.body, "A newer server continues this")
	}
	assert.Equal(t, http.StatusSeeOther, newer.says("fin1", link, shown.form(t, "accept", "f0", "5")).status)
	assert.Equal(t, "5 by fin1, true", newer.endOf(task.TaskID, "completed"))
}
