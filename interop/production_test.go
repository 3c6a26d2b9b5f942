package interop

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
)

// expensive is a trip that another person has to approve.
type expensive struct {
	city        string
	asked, goOn chan bool // the second question, and its answer
	ended       chan string
}

// begin has ann begin it, who answers the first question.
func (e *expensive) begin(t *testing.T, l *load) {
	session, _ := l.signedIn(t, "ann", "2026-07-28", func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		l.count(func() { l.asked++ })
		if strings.HasPrefix(r.Params.Message, "Where") {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"city": e.city, "arrival": arrival.Format(time.DateOnly), "nights": 3, "travellers": 2}}, nil
		}
		close(e.asked)
		<-e.goOn
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"pay": "all"}}, nil
	})
	go func() {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "trip", Arguments: map[string]any{"from": "Oslo", "account": l.secret("account of " + e.city)}})
		if !assert.NoError(t, err) {
			e.ended <- err.Error()
			return
		}
		e.ended <- result.Content[0].(*mcp.TextContent).Text
	}()
	<-e.asked
}

// approve has another person sign in in a browser, and approve it.
func (e *expensive) approve(t *testing.T, s *site) {
	b := &tab{t, needBrowser(t), ""}
	b.do(chromedp.Navigate(s.url+"/ask/waiting"), chromedp.WaitVisible(chromedp.CSS("input[name=user]")),
		chromedp.SendKeys(chromedp.CSS("input[name=user]"), approver), chromedp.Click(chromedp.CSS("button")), chromedp.WaitVisible(chromedp.CSS("h1")))
	require.Eventually(t, func() bool {
		b.do(chromedp.Navigate(s.url + "/ask/waiting"))
		return strings.Contains(eval[string](b, "document.body.innerText"), e.city)
	}, time.Minute, 200*time.Millisecond)
	b.do(chromedp.Click(chromedp.CSS("ul.waiting a")), chromedp.WaitVisible(chromedp.CSS("form")))
	b.shows("for ann", e.city, "EUR 990.00")
	b.do(chromedp.Click(chromedp.CSS(`button[value=accept]`)), chromedp.WaitNotPresent(chromedp.CSS("form")))
	b.shows("It was agreed to by you")
}

// agree has the owner of the account agree at the bank.
func (e *expensive) agree(t *testing.T, s *site) {
	holds, err := s.payment.List(t.Context())
	require.NoError(t, err)
	i := slices.IndexFunc(holds, func(h service.Hold) bool { return h.Item == "account of "+e.city })
	require.GreaterOrEqual(t, i, 0)
	require.Eventually(t, func() bool {
		response, err := http.Post(s.urls.Payment+"/holds/"+holds[i].Key+"/agree", "application/json", nil)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusNoContent
	}, time.Minute, 100*time.Millisecond)
}

// TestProduction is the whole as it is in production: examples/trip/production in three replicas behind nginx, with users who sign
// in by OAuth, PostgreSQL, Prometheus and a Collector. While others travel, ann begins a trip that takes an approval; the replica that
// took her last turn is killed; and another person approves on the page. Then her trip is one story in the traces, the
// audit has each act with who did it, and the dashboard shows what the users have counted. SAGA_NIGHTLY=1 has them travel for longer.
func TestProduction(t *testing.T) {
	onlyIfWanted(t, "starts all that is there in production")
	needNode(t)
	s, travel := newSite(t), 3*time.Second
	if nightly {
		travel = 20 * time.Second
	}
	l, tokens := newLoad(s), map[string]string{}
	for user, protocol := range map[string]string{"cid": "saga", "dee": "2026-07-28", "eve": "2025-11-25"} {
		session, token := l.signedIn(t, user, "2026-07-28", nil)
		require.NoError(t, session.Close())
		tokens[protocol] = token
	}
	others := func() (stop func()) {
		ctx, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for protocol, token := range tokens {
			for range travellers / len(tokens) {
				all.Go(func() { l.travels(ctx, t, token, protocol) })
			}
		}
		return func() { end(); all.Wait() }
	}
	s.strangers()
	stop := others()
	e := &expensive{city: l.city(), asked: make(chan bool), goOn: make(chan bool), ended: make(chan string, 1)}
	e.begin(t, l)
	time.Sleep(travel)
	stop()
	s.shows(l.wanted(acts{suspended: 2, effects: held}), 0)

	stop = others()
	time.Sleep(travel / 3)
	victim, saga := s.whoTook("ann", 2)
	require.Eventually(t, func() bool { // what a replica has not yet sent dies with it
		return slices.ContainsFunc(s.spans(), func(sp span) bool {
			return sp.attribute("mcpsaga.saga.id") == saga && sp.attribute("mcpsaga.turn.number") == "2"
		})
	}, 10*time.Second, 200*time.Millisecond)
	l.killing.Store(true)
	s.replace(victim)
	close(e.goOn)
	e.approve(t, s)
	e.agree(t, s)
	assert.Contains(t, <-e.ended, `"paid":"EUR 990.00","due":"EUR 0.00","approver":"bo"`)
	time.Sleep(travel / 3)
	stop()
	s.audited(l, saga)
	lost := s.metersAgree(victim)
	s.shows(l.wanted(acts{suspended: 4, done: 1, effects: ofAnn()}), lost+4*l.again)
	told, replicas := story(t, s.spans(), saga), map[string]bool{}
	for _, sp := range told {
		replicas[sp.replica] = true
	}
	assert.Len(t, told, 5+5+len(ofAnn()), "requests, turns, and effects")
	assert.True(t, len(replicas) > 1 && replicas[s.replicas[victim].name], "of %v", replicas)
	s.discreet(l)
	t.Logf("%v of others, %d of their requests were sent again; %d acts were lost to Prometheus; ann's trip has %d spans", l.ends, l.again, lost, len(told))
}
