package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type limit struct {
	Limit int `json:"limit" minimum:"1"`
}

func newApprove() *steps.Form[limit] {
	return &steps.Form[limit]{ID: "approve", Message: "Up to what sum?", By: steps.By{"finance"}, Within: time.Hour}
}

// office is where links are sent to.
type office struct{ links chan string }

// pays is a tool that somebody in finance has to approve.
func (o *office) pays(approve *steps.Form[limit]) saga.Definition {
	tell := &saga.Effect[string, string]{Name: "tell", Do: func(_ context.Context, _ saga.Key, link string) (string, error) {
		o.links <- link
		return "", nil
	}}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Title: "Pay a bill", Asks: []steps.Question{approve}, Effects: []saga.Declared{tell}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			link, err := saga.Page(r, approve)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, tell, link); err != nil {
				return "", err
			}
			got, err := saga.Ask(r, approve)
			who, at := approve.AnsweredBy(r)
			return fmt.Sprintf("%d by %s, %t", got.Limit, who, time.Since(at) < time.Minute), err //sagavet:ignore how long ago that was is the same in every run
		},
	}
}

// roles are the groups that people of tests are in.
func roles(_ context.Context, who saga.Caller) ([]string, error) {
	switch {
	case strings.HasPrefix(who.Subject, "fin"):
		return []string{"finance", "staff"}, nil
	case who.Subject == "lost":
		return nil, errors.New("the directory does not answer")
	}
	return []string{"staff", who.Subject}, nil
}

// inPerson opens a page as somebody.
func (r *rig) inPerson(who, link string) opened {
	r.t.Helper()
	return r.browse(http.MethodGet, link, nil, func(q *http.Request) { q.Header.Set("User", who) })
}

// says sends a form as somebody.
func (r *rig) says(who, link string, form url.Values) opened {
	r.t.Helper()
	return r.browse(http.MethodPost, link, form, func(q *http.Request) { q.Header.Set("User", who) })
}

func newOffice(t *testing.T, approve *steps.Form[limit], change ...func(*server.Options)) (*office, *rig) {
	t.Helper()
	o := &office{make(chan string, 100)}
	r := newPagesRig(t, append([]func(*server.Options){offering(o.pays(approve)), func(o *server.Options) { o.Questions.Roles = roles }}, change...)...)
	return o, r
}

// asks has a task of ann's begin that asks others, and returns its link.
func (o *office) asks(r *rig) (task taskShown, link string) {
	q := callTool("pay", object{})
	q.header.Set("User", "ann")
	return r.begin(q), <-o.links
}

// ofAnn is a task of ann's as she sees it.
func (r *rig) ofAnn(id string) taskShown {
	r.t.Helper()
	q := taskRequest("get", id)
	q.header.Set("User", "ann")
	return readTask(r.t, r.send(q).Result)
}

// endOf waits until a task of ann's has the status, and returns its text.
func (r *rig) endOf(id, status string) string {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.ofAnn(id).Status == status }, time.Minute, 5*time.Millisecond, "%s", status)
	if end := r.ofAnn(id); end.Result != nil {
		return end.Result.text()
	}
	return ""
}

// opensFor waits until somebody is shown the question of a link.
func (r *rig) opensFor(who, link string) opened {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.inPerson(who, link).status == 200 }, time.Minute, 5*time.Millisecond)
	return r.inPerson(who, link)
}

const waitingAt = pagesAt + "/waiting"

// Others find in a list, or by a link, what they are to answer, and the caller's client learns nothing but the end.
func TestOthersAnswer(t *testing.T) {
	office, r := newOffice(t, newApprove())
	task, link := office.asks(r)
	assert.Regexp(t, regexp.MustCompile(`^`+waitingAt+`/[\w-]{32}$`), link)
	r.opensFor("fin1", link)
	list := r.inPerson("fin1", waitingAt)
	shows(t, list, "Waiting for your answer", "Pay a bill", "ann", "Up to what sum?", "can be answered until", `href="waiting/`+link[len(waitingAt)+1:]+`"`)
	assert.NotContains(t, r.inPerson("bob", waitingAt).body, "Pay a bill")
	shows(t, r.inPerson("bob", waitingAt), "Nothing waits for you here.")
	shown := r.inPerson("fin1", link)
	shows(t, shown, "Pay a bill asks for your answer", "for <strong dir=\"auto\">ann</strong>", "Up to what sum?", "allows the tool to act", "by one person", "All that waits for you")

	misfit := r.says("fin1", link, shown.form(t, "accept", "f0", "0"))
	assert.Equal(t, http.StatusUnprocessableEntity, misfit.status)
	shows(t, misfit, "The answer does not fit yet")
	sent := r.says("fin1", link, shown.form(t, "accept", "f0", "70"))
	require.Equal(t, http.StatusSeeOther, sent.status, sent.body)
	assert.Equal(t, link[len(waitingAt)+1:]+"?taken", sent.header.Get("Location"))
	shows(t, r.inPerson("fin1", link+"?taken"), "Your answer was taken.", "It was agreed to by you on")
	shows(t, r.inPerson("fin2", link), "It was agreed to by fin1 on")
	assert.NotContains(t, r.inPerson("fin2", link).body, "70", "what was answered is the tool's")
	shows(t, r.inPerson("fin2", waitingAt), "Nothing waits for you here.")
	assert.Equal(t, "70 by fin1, true", r.endOf(task.TaskID, "completed"))
}

// Who may not answer is shown nothing, and changes nothing.
func TestOthersWhoMayNot(t *testing.T) {
	office, r := newOffice(t, newApprove(), func(o *server.Options) {
		o.Authenticate = func(q *http.Request) (saga.Caller, error) {
			if q.Header.Get("User") == "stranger" {
				return saga.Caller{}, errors.New("who is that")
			}
			return users(q)
		}
	})
	task, link := office.asks(r)
	form := r.opensFor("fin1", link).form(t, "accept", "f0", "70")
	for who, want := range map[string]int{"bob": 403, "ann": 403, "": 401, "stranger": 401, "lost": 503} {
		for _, got := range []opened{r.inPerson(who, link), r.says(who, link, form)} {
			assert.Equal(t, want, got.status, who)
			for _, text := range []string{"Up to what sum", "Pay a bill", ">ann<", "finance", "<form"} {
				assert.NotContains(t, got.body, text)
			}
			assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
			assert.Contains(t, got.header.Get("Content-Security-Policy"), "default-src 'none'")
		}
		assert.NotContains(t, r.inPerson(who, waitingAt).body, "Pay a bill")
	}
	for _, link := range []string{link + "x", link[:len(link)-1] + "!", waitingAt + "/", waitingAt + "/" + strings.Repeat("A", 32), waitingAt + "/" + strings.Repeat("A", 100_000), waitingAt + "?after=x", waitingAt + "?after=9.", waitingAt + "?after=-1."} {
		got := r.inPerson("fin1", link)
		assert.Equal(t, 404, got.status, "%.60s", link)
	}
	assert.Equal(t, 404, postEvent(t, r.srv, strings.TrimPrefix(link, waitingAt+"/"), `{"limit":70}`), "it is no handle of an event")
	assert.Equal(t, "working", r.ofAnn(task.TaskID).Status)
	shows(t, r.inPerson("fin1", link), "Up to what sum?")
}

// Of several who answer at the same moment one is taken, at whatever server, and all others are told who that was.
func TestOthersAnswerOnce(t *testing.T) {
	keys, store := newKeys(t), inMemory(t)
	shared := func(o *server.Options) { o.Keys, o.Ledger = keys, store }
	office, one := newOffice(t, newApprove(), shared)
	_, two := newOffice(t, newApprove(), shared, offering(office.pays(newApprove())))
	task, link := office.asks(one)
	statuses := make([]int, 6)
	forms := make([]url.Values, len(statuses))
	for i := range forms {
		forms[i] = one.opensFor(fmt.Sprint("fin", i), link).form(t, "accept", "f0", fmt.Sprint(i+1))
	}
	var crowd sync.WaitGroup
	for i := range statuses {
		r := []*rig{one, two}[i%2]
		crowd.Go(func() { statuses[i] = r.says(fmt.Sprint("fin", i), link, forms[i]).status })
	}
	crowd.Wait()
	first := -1
	for i, status := range statuses {
		if status == http.StatusSeeOther {
			require.Equal(t, -1, first, "%v", statuses)
			first = i
		} else {
			require.Equal(t, http.StatusConflict, status, "%v", statuses)
		}
	}
	require.GreaterOrEqual(t, first, 0)
	assert.Equal(t, fmt.Sprintf("%d by fin%d, true", first+1, first), two.endOf(task.TaskID, "completed"))
	who := fmt.Sprint("fin", (first+1)%6)
	late := two.inPerson(who, link)
	shows(t, late, fmt.Sprintf("It was agreed to by fin%d on", first))
	assert.NotContains(t, late.body, "<form")
}

// Who is second reads it on the page, even with the form of before.
func TestOthersAreTooLate(t *testing.T) {
	office, r := newOffice(t, newApprove())
	task, link := office.asks(r)
	first, second := r.opensFor("fin1", link).form(t, "decline"), r.opensFor("fin2", link).form(t, "accept", "f0", "5")
	require.Equal(t, http.StatusSeeOther, r.says("fin1", link, first).status)
	late := r.says("fin2", link, second)
	assert.Equal(t, http.StatusConflict, late.status)
	shows(t, late, "Your answer was not taken", "It was declined by fin1 on")
	assert.Contains(t, r.endOf(task.TaskID, "completed"), "declined")

	// Cancelled.
	task, link = office.asks(r)
	form := r.opensFor("fin1", link).form(t, "accept", "f0", "5")
	q := taskRequest("cancel", task.TaskID)
	q.header.Set("User", "ann")
	r.send(q)
	r.endOf(task.TaskID, "cancelled")
	assert.NotContains(t, r.inPerson("fin1", waitingAt).body, "Pay a bill")
	late = r.says("fin1", link, form)
	assert.Equal(t, http.StatusConflict, late.status)
	shows(t, late, "It is not asked any more")

	// Not in time.
	short := newApprove()
	short.Within = 2 * time.Second
	office, r = newOffice(t, short)
	task, link = office.asks(r)
	form = r.opensFor("fin1", link).form(t, "accept", "f0", "5")
	assert.Contains(t, r.endOf(task.TaskID, "completed"), "has not happened in time")
	assert.NotContains(t, r.inPerson("fin1", waitingAt).body, "Pay a bill")
	late = r.says("fin1", link, form)
	assert.Equal(t, http.StatusConflict, late.status)
	shows(t, late, "It is not asked any more")
}

// The caller answers only if that is allowed, and named like anybody.
func TestCallersWhoMayAnswer(t *testing.T) {
	allowed := newApprove()
	allowed.By, allowed.AllowCaller = steps.By{"ann"}, true
	office, r := newOffice(t, allowed)
	task, link := office.asks(r)
	form := r.opensFor("ann", link).form(t, "accept", "f0", "5")
	shows(t, r.inPerson("ann", waitingAt), "Pay a bill")
	require.Equal(t, http.StatusSeeOther, r.says("ann", link, form).status)
	assert.Equal(t, "5 by ann, true", r.endOf(task.TaskID, "completed"))
	assert.Equal(t, 403, r.inPerson("bob", link).status)

	// Without Roles, By names the subject. The caller's own requests are not in the caller's list.
	named := newApprove()
	named.By = steps.By{"bob", "ann"}
	office, r = newOffice(t, named, func(o *server.Options) { o.Questions.Roles = nil })
	_, link = office.asks(r)
	r.opensFor("bob", link)
	assert.Equal(t, 403, r.inPerson("ann", link).status)
	assert.NotContains(t, r.inPerson("ann", waitingAt).body, "Pay a bill")
	assert.Contains(t, r.inPerson("bob", waitingAt).body, "Pay a bill")

	// A caller whom nobody knows could be anybody.
	q := callTool("pay", object{})
	r.begin(q)
	assert.Equal(t, 403, r.opensForAnybody("bob", <-office.links))
}

func (r *rig) opensForAnybody(who, link string) int {
	require.Eventually(r.t, func() bool { return r.inPerson(who, link).status != 404 }, time.Minute, 5*time.Millisecond)
	return r.inPerson(who, link).status
}

// What is asked of others is nothing that a caller's client sees, whatever it speaks and can do, or can answer.
func TestOthersAreNotTheClient(t *testing.T) {
	office, r := newOffice(t, newApprove(), func(o *server.Options) { o.TurnTimeout = 4 * time.Second })
	secret := func(raw string) {
		for _, text := range []string{"Up to what sum", "finance", `"limit"`, "/waiting/"} {
			assert.NotContains(t, raw, text)
		}
	}
	as := func(q *request) *request { q.header.Set("User", "ann"); return q }
	accept := func(link string) {
		form := r.opensFor("fin1", link).form(t, "accept", "f0", "5")
		require.Equal(t, http.StatusSeeOther, r.says("fin1", link, form).status)
	}

	task, link := office.asks(r)
	r.opensFor("fin1", link)
	secret(r.send(as(taskRequest("get", task.TaskID))).raw)
	r.send(as(taskRequest("update", task.TaskID, object{"inputResponses": object{"approve": formed(object{"limit": 1})}})))
	assert.Equal(t, "working", r.ofAnn(task.TaskID).Status)

	first := r.send(as(callTool("pay", object{}).with(allCapabilities)))
	secret(first.raw)
	state := first.result(t)
	require.Equal(t, "input_required", state.ResultType)
	link = <-office.links
	again := r.send(as(callTool("pay", object{}).with(allCapabilities).answering(state.RequestState, object{"approve": formed(object{"limit": 1})})))
	secret(again.raw)
	assert.Equal(t, "input_required", again.result(t).ResultType, "the client cannot give it")
	accept(link)
	end := r.send(as(callTool("pay", object{}).with(allCapabilities).answering(again.result(t).RequestState, nil)))
	assert.Equal(t, "5 by fin1, true", end.result(t).text())

	first = r.send(as(callTool("pay", object{}))) // of a client that cannot be asked anything
	secret(first.raw)
	accept(<-office.links)
	end = r.send(as(callTool("pay", object{}).answering(first.result(t).RequestState, nil)))
	assert.Equal(t, "5 by fin1, true", end.result(t).text())

	c := r.connect("2025-11-25", everything, func(c *legacyClient) { c.header.Set("User", "ann") })
	stream := c.stream(toolCall(1, "pay", "{}"))
	accept(<-office.links)
	said, _ := text(t, stream.message().Result)
	assert.Equal(t, "5 by fin1, true", said)
	secret(r.send(as(modernRequest("tools/list", object{}))).raw)
}

// What a page did not make changes nothing.
func TestFormsOfOthers(t *testing.T) {
	office, r := newOffice(t, newApprove())
	task, link := office.asks(r)
	_, second := office.asks(r)
	form := r.opensFor("fin1", link).form(t, "accept", "f0", "5")
	other := r.opensFor("fin1", second).form(t, "accept", "f0", "5")
	theirs := r.opensFor("fin2", link).form(t, "accept", "f0", "5")
	without := func(name string) url.Values {
		changed := url.Values{}
		for k, v := range form {
			if k != name {
				changed[k] = v
			}
		}
		return changed
	}
	for name, bad := range map[string]url.Values{"of another question": other, "of another person": theirs, "no token": without("token"), "no question": without("question"), "nothing to do": without("do")} {
		assert.Equal(t, 403, r.says("fin1", link, bad).status, name)
	}
	for name, change := range map[string]func(*http.Request){
		"another site":   func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another origin": func(q *http.Request) { q.Header.Del("Sec-Fetch-Site"); q.Header.Set("Origin", "https://evil.example") },
		"another type":   func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") },
		"another method": func(q *http.Request) { q.Method = http.MethodPut },
	} {
		got := r.browse(http.MethodPost, link, form, func(q *http.Request) { q.Header.Set("User", "fin1"); change(q) })
		assert.GreaterOrEqual(t, got.status, 400, name)
	}
	form.Set("f0", strings.Repeat("1", 2<<20))
	assert.Equal(t, 413, r.says("fin1", link, form).status)
	form.Set("f0", "5")
	assert.Equal(t, 405, r.says("fin1", waitingAt, form).status)
	assert.Equal(t, "working", r.ofAnn(task.TaskID).Status)
	require.Equal(t, http.StatusSeeOther, r.says("fin1", link, form).status)
}

func TestOthersNeedPages(t *testing.T) {
	o := &office{}
	tools := []saga.Definition{o.pays(newApprove())}
	_, err := server.New(server.Options{Keys: newKeys(t), Tools: tools})
	assert.ErrorContains(t, err, `tool "pay": it asks others than its caller, for which the server needs a ledger`)
	for _, lacks := range []server.Options{{Authenticate: users}, {Questions: server.Questions{PageURL: pagesAt}}} {
		lacks.Keys, lacks.Tools, lacks.Ledger = newKeys(t), tools, inMemory(t)
		_, err = server.New(lacks)
		assert.ErrorContains(t, err, `tool "pay": it asks others than its caller, for which the server needs Options.Questions.PageURL, where they answer, and Options.Authenticate`)
	}
	_, r := newOffice(t, newApprove(), func(o *server.Options) { o.Tools, o.Authenticate = nil, nil })
	assert.Equal(t, 404, r.inPerson("fin1", waitingAt).status)
}

// Others can answer before the client has answered what it is asked beside.
func TestOthersAreAskedBesideTheClient(t *testing.T) {
	approve := newApprove()
	own := &steps.Form[limit]{ID: "own", Message: "Yours?"}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Title: "Pay a bill", Asks: []steps.Question{approve, own}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			return "done", r.AskAll(own, approve)
		},
	}
	r := newPagesRig(t, offering(tool), func(o *server.Options) { o.Questions.Roles = roles })
	as := func(q *request) *request { q.header.Set("User", "ann"); return q }
	first := r.send(as(callTool("pay", object{}).with(allCapabilities)))
	state := first.result(t)
	require.Equal(t, "input_required", state.ResultType)
	assert.Contains(t, r.inPerson("fin1", waitingAt).body, "Pay a bill", "before the client answers")
	r.send(as(callTool("pay", object{}).with(allCapabilities).answering(state.RequestState, object{"own": formed(object{"limit": 1})})))
	assert.Contains(t, r.inPerson("fin1", waitingAt).body, "Pay a bill", "after the client answers")
}

// A question for others may come before all that the tool does.
func TestOthersAreAskedFirst(t *testing.T) {
	approve := newApprove()
	pay := &saga.Effect[string, string]{Name: "pay", Do: func(context.Context, saga.Key, string) (string, error) { return "", nil }, Undo: func(context.Context, saga.Performed[string, string]) error { return nil }}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Title: "Pay a bill", Asks: []steps.Question{approve}, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Ask(r, approve); err != nil {
				return "", err
			}
			_, err := saga.Do(r, pay, "x")
			return "paid", err
		},
	}
	r := newPagesRig(t, offering(tool), func(o *server.Options) { o.Questions.Roles = roles })
	as := func(q *request) *request { q.header.Set("User", "ann"); return q }
	state := r.send(as(callTool("pay", object{}).with(allCapabilities))).result(t)
	require.Equal(t, "input_required", state.ResultType)
	m := regexp.MustCompile(`href="(waiting/[\w-]+)"`).FindStringSubmatch(r.inPerson("fin1", waitingAt).body)
	require.NotNil(t, m, "the question is not in the list")
	link := pagesAt + "/" + m[1]
	got := r.inPerson("fin1", link)
	require.Equal(t, 303, r.says("fin1", link, got.form(t, "accept", "f0", "5")).status)
	end := r.send(as(callTool("pay", object{}).with(allCapabilities).answering(state.RequestState, nil)))
	assert.Equal(t, "paid", end.result(t).text())
}
