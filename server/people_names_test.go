package server_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Whoever calls is found again, whatever identity providers call them.
func TestCallersOfAnyName(t *testing.T) {
	for _, name := range []string{strings.Repeat("n", 127), strings.Repeat("n", 128), strings.Repeat("é", 300), "a\xffb"} {
		approve, hold := newApprove(), &saga.Effect[string, string]{Name: "hold", Do: func(context.Context, saga.Key, string) (string, error) { return "", nil }, Undo: func(context.Context, saga.Performed[string, string]) error { return nil }}
		tool := saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "pay", Title: "Pay a bill", Asks: []steps.Question{approve}, Effects: []saga.Declared{hold}},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				if _, err := saga.Do(r, hold, "x"); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, approve)
				return "paid", err
			},
		}
		r := newPagesRig(t, offering(tool), func(o *server.Options) {
			o.Questions.Roles = roles
			o.Authenticate = func(q *http.Request) (saga.Caller, error) {
				if who := q.Header.Get("User"); who != "caller" {
					return saga.Caller{Subject: who}, nil
				}
				return saga.Caller{Issuer: name, Subject: name, Client: name}, nil
			}
		})
		as := func(q *request) *request { q.header.Set("User", "caller"); return q }
		state := r.send(as(callTool("pay", object{}).with(allCapabilities))).result(t)
		require.Equal(t, "input_required", state.ResultType)
		m := regexp.MustCompile(`href="(waiting/[\w-]+)"`).FindStringSubmatch(r.inPerson("fin1", waitingAt).body)
		require.NotNil(t, m)
		link := pagesAt + "/" + m[1]
		require.Equal(t, 303, r.says("fin1", link, r.inPerson("fin1", link).form(t, "accept", "f0", "5")).status)
		end := r.send(as(callTool("pay", object{}).with(allCapabilities).answering(state.RequestState, nil)))
		assert.Equal(t, "paid", end.result(t).text())
	}
}

// Whoever answers is taken at their word, whatever identity providers call them; what is no UTF-8 is shown as well as can be.
func TestOthersOfAnyName(t *testing.T) {
	for name, want := range map[string]string{"fin\xffn": "fin\uFFFDn", "fin" + strings.Repeat("é", 300): "fin" + strings.Repeat("é", 300)} {
		office, r := newOffice(t, newApprove(), func(o *server.Options) {
			o.Authenticate = func(q *http.Request) (saga.Caller, error) {
				if who := q.Header.Get("User"); who != "other" {
					return saga.Caller{Subject: who}, nil
				}
				return saga.Caller{Subject: name}, nil
			}
		})
		task, link := office.asks(r)
		form := r.opensFor("other", link).form(t, "accept", "f0", "5")
		sent := r.says("other", link, form)
		require.Equal(t, http.StatusSeeOther, sent.status, sent.body)
		assert.Equal(t, "5 by "+want+", true", r.endOf(task.TaskID, "completed"))
		shows(t, r.inPerson("other", link), "It was agreed to by")
	}
}
