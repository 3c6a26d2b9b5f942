package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type payment struct {
	Amount int `json:"amount" minimum:"1"`
}

// till is a provider of payments, which is given handles.
type till struct{ handles chan string }

func (p *till) pay(_ context.Context, _ saga.Key, handle string) (string, error) {
	p.handles <- handle
	return "", nil
}

var (
	paid    = &steps.Event[payment]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
	shipped = &steps.Event[struct{}]{ID: "shipped", Message: "Waiting for the parcel.", Within: time.Hour}
)

// newTill returns a provider, and tools that wait for it: for a payment, and for a parcel by its number.
func newTill(question *steps.Event[payment]) (*till, []saga.Definition) {
	p := &till{make(chan string, 100)}
	pay := &saga.Effect[string, string]{Name: "pay", Do: p.pay}
	return p, []saga.Definition{saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{question}, Effects: []saga.Declared{pay}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			handle, err := saga.Handle(r, question)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, handle); err != nil {
				return "", err
			}
			got, err := saga.Ask(r, question)
			return fmt.Sprintf("paid %d", got.Amount), err
		},
	}, saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "parcel", Asks: []steps.Question{shipped}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Ask(r, shipped.With(steps.Key("17")))
			return "it is here", err
		},
	}}
}

// post delivers by HTTP.
func postEvent(t *testing.T, s *server.Server, path, body string) int {
	t.Helper()
	w := httptest.NewRecorder()
	s.EventHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/"+path, strings.NewReader(body)))
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return w.Code
}

// Clients of MCP 2026-07-28 come again, with nothing but the state, until the event has happened.
func TestEventsForStatelessClients(t *testing.T) {
	p, tools := newTill(paid)
	r := newRig(t, server.Options{Ledger: inMemory(t), Tools: tools, TurnTimeout: 4 * time.Second})
	first := r.send(callTool("buy", object{}).with(allCapabilities)).result(t)
	require.Equal(t, "input_required", first.ResultType)
	assert.Empty(t, first.InputRequests, "nobody is asked")
	assert.NotEmpty(t, first.RequestState)
	assert.Contains(t, first.Meta, "io.github.mcpsaga/retryAfterMs")
	handle := <-p.handles
	again := r.send(callTool("buy", object{}).with(allCapabilities).answering(first.RequestState, object{"paid": formed(object{"amount": 1})})).result(t)
	assert.Equal(t, "input_required", again.ResultType, "the client cannot say that it has happened")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		end := r.send(callTool("buy", object{}).with(allCapabilities).answering(again.RequestState, nil)).result(t)
		assert.Equal(t, "paid 5", end.text(), "its request waits")
	})
	assert.Less(t, postEvent(t, r.srv, handle, `{"amount":5}`), 300)
	waiting.Wait()
	assert.Empty(t, p.handles, "it was given one handle")
}

// Older clients wait for their result, and those of tasks look at the task. Another server may have taken the event.
func TestEventsForSessionsAndTasks(t *testing.T) {
	p, tools := newTill(paid)
	o := server.Options{Ledger: inMemory(t), Tools: tools, Keys: newKeys(t)}
	r, other := newRig(t, o), newRig(t, o)
	c := r.connect("2025-11-25", everything)
	stream := c.stream(toolCall(1, "buy", "{}"))
	assert.Less(t, postEvent(t, other.srv, <-p.handles, `{"amount":5}`), 300)
	said, failed := text(t, stream.message().Result)
	assert.False(t, failed)
	assert.Equal(t, "paid 5", said)

	task := r.begin(callTool("buy", object{}))
	handle := <-p.handles
	require.Eventually(t, func() bool { return other.task(task.TaskID).StatusMessage == paid.Message }, 10*time.Second, 5*time.Millisecond)
	assert.Equal(t, "working", other.task(task.TaskID).Status)
	require.NoError(t, other.srv.Deliver(t.Context(), handle, payment{6}))
	assert.Equal(t, "paid 6", r.until(task.TaskID, "completed").Result.text())
}

func TestEventsBySignal(t *testing.T) {
	_, tools := newTill(paid)
	r := newRig(t, server.Options{Ledger: inMemory(t), Tools: tools})
	first := r.send(callTool("parcel", object{}).with(allCapabilities)).result(t)
	require.ErrorIs(t, r.srv.Signal(t.Context(), "nothing", "shipped", "17", nil), server.ErrNoEvent)
	require.ErrorContains(t, r.srv.Signal(t.Context(), "parcel", "paid", "17", nil), "does not wait")
	for _, key := range []string{"", strings.Repeat("x", 10_000), "\xff"} { // no saga can ask for it
		require.ErrorIs(t, r.srv.Signal(t.Context(), "parcel", "shipped", key, nil), server.ErrNoEvent)
	}
	require.ErrorContains(t, r.srv.Signal(t.Context(), "parcel", "shipped", "17", 3), "object")
	require.NoError(t, r.srv.Signal(t.Context(), "parcel", "shipped", "17", nil))
	end := r.send(callTool("parcel", object{}).with(allCapabilities).answering(first.RequestState, nil)).result(t)
	assert.Equal(t, "it is here", end.text())
}

// An event that the newest revision does not wait for, or with another value, reaches the sagas of an older one beside it.
func TestSignalsReachOlderRevisions(t *testing.T) {
	type weighed struct {
		Grams int `json:"grams" minimum:"1"`
	}
	heavy := &steps.Event[weighed]{ID: "shipped", Message: "Waiting.", Within: time.Hour}
	parcel := func(revision uint32, asks ...steps.Question) saga.Definition {
		return saga.Flow[empty, string]{
			Info: saga.Info{Name: "parcel", Revision: revision, Asks: asks, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				_, err := saga.Ask(r, shipped.With(steps.Key("17")))
				return "it is here", err
			},
		}
	}
	for name, newest := range map[string]saga.Definition{"it is gone": parcel(1), "it is another": parcel(1, heavy)} {
		t.Run(name, func(t *testing.T) {
			keys, store := newKeys(t), inMemory(t)
			older := newRig(t, server.Options{Keys: keys, Ledger: store, Tools: []saga.Definition{parcel(0, shipped)}})
			task := older.begin(callTool("parcel", nil))
			newer := newRig(t, server.Options{Keys: keys, Ledger: store, Tools: []saga.Definition{newest, parcel(0, shipped)}})
			require.NoError(t, newer.srv.Signal(t.Context(), "parcel", "shipped", "17", nil))
			require.Eventually(t, func() bool {
				return readTask(t, older.send(taskRequest("get", task.TaskID)).Result).Status == "completed"
			}, time.Minute, 5*time.Millisecond)
			assert.Error(t, newer.srv.Signal(t.Context(), "parcel", "lost", "17", nil))
		})
	}
}

// A server that does nothing but pass on signals also does the work that they are for.
func TestSignalsBeginTheWork(t *testing.T) {
	here := make(chan struct{}, 9)
	parcel := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "parcel", Asks: []steps.Question{shipped}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Ask(r, shipped.With(steps.Key("17")))
			if err == nil {
				here <- struct{}{}
			}
			return "it is here", err
		},
	}
	o := server.Options{Ledger: inMemory(t), Tools: []saga.Definition{parcel}, Keys: newKeys(t)}
	r := newRig(t, o)
	task := r.begin(callTool("parcel", object{}))
	require.Eventually(t, func() bool { return r.task(task.TaskID).StatusMessage == shipped.Message }, 10*time.Second, 5*time.Millisecond)
	r.srv.Close()
	other, err := server.New(o)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.Signal(t.Context(), "parcel", "shipped", "17", nil))
	select {
	case <-here:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody goes on with the saga")
	}
}

// endless is a body that does not end, and counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	if e.read > 100<<20 {
		return 0, io.EOF
	}
	return len(b), nil
}

func TestEventHandler(t *testing.T) {
	p, tools := newTill(paid)
	r := newRig(t, server.Options{Ledger: inMemory(t), Tools: tools})
	begin := func() (taskShown, string) { task := r.begin(callTool("buy", object{})); return task, <-p.handles }
	task, handle := begin()
	// What does not fit is kept as long as it is not known what fits, and then is as if it had not come.
	require.Eventually(t, func() bool { return postEvent(t, r.srv, handle, `{"amount":0}`) == 422 }, 10*time.Second, 5*time.Millisecond)
	for _, try := range []struct {
		path, body string
		want       int
	}{
		{"", `{}`, 404}, {"x", `{}`, 404}, {strings.Repeat("A", 32), `{}`, 404}, {strings.Repeat("A", 100_000), `{}`, 404},
		{handle + "/x", `{}`, 404}, {"../" + handle[1:], `{}`, 404}, {handle[:31] + "%00", `{}`, 404},
		{handle, `{`, 400}, {handle, `{"amount":1,"amount":2}`, 400}, {handle, strings.Repeat("[", 5000) + strings.Repeat("]", 5000), 400}, {handle, "{\"amount\":\"\xff\"}", 400},
		{handle, ``, 422}, {handle, `{"amount":0}`, 422}, {handle, `null`, 422},
		{handle, `{"amount":1e400}`, 422}, {handle, `{"amount":1e20}`, 422}, {handle, "[" + strings.Repeat("5e-324,", 10_000) + "5e-324]", 400},
		{handle, `{"amount":9007199254740993}`, 200}, {handle, ` {"amount":9007199254740993}`, 200}, {handle, `{"amount":9007199254740992}`, 409}, {handle + "/reject", `no funds`, 409},
	} {
		assert.Equal(t, try.want, postEvent(t, r.srv, try.path, try.body), "%.50s %.50s", try.path, try.body)
	}
	assert.Equal(t, "paid 9007199254740993", r.until(task.TaskID, "completed").Result.text())

	task, handle = begin()
	assert.Less(t, postEvent(t, r.srv, handle+"/reject", "no funds\xff"), 300)
	assert.Contains(t, r.until(task.TaskID, "completed").Result.text(), "was declined")

	p, tools = newTill(&steps.Event[payment]{ID: "paid", Message: "Waiting for the payment.", Within: time.Second})
	r = newRig(t, server.Options{Ledger: inMemory(t), Tools: tools})
	task, handle = begin()
	assert.Contains(t, r.until(task.TaskID, "completed").Result.text(), "has not happened in time")
	assert.Equal(t, 410, postEvent(t, r.srv, handle, `{"amount":5}`))

	w, body := httptest.NewRecorder(), new(endless)
	r.srv.EventHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/"+handle, body))
	assert.Equal(t, 413, w.Code)
	assert.Less(t, body.read, 4<<20)
	w, body = httptest.NewRecorder(), new(endless)
	r.srv.EventHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/"+strings.Repeat("A", 32), body))
	assert.Equal(t, 404, w.Code)
	assert.Zero(t, body.read, "without a handle nothing is read")
	w = httptest.NewRecorder()
	r.srv.EventHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+handle, nil))
	assert.Equal(t, 405, w.Code)
}

// What is early is kept, as much as the ledger is to keep. What is refused says when to come again.
func TestEventsThatAreEarly(t *testing.T) {
	_, tools := newTill(paid)
	store := inMemory(t)
	r := newRig(t, server.Options{Ledger: store, Tools: tools, LedgerLimit: 5})
	full := 0
	for n := range 20 {
		if err := r.srv.Signal(t.Context(), "parcel", "shipped", fmt.Sprint(n), nil); err != nil {
			full++
		}
	}
	assert.Equal(t, 15, full)
}

func TestEventsNeedALedger(t *testing.T) {
	_, tools := newTill(paid)
	_, err := server.New(server.Options{Keys: newKeys(t), Tools: tools})
	require.ErrorContains(t, err, `tool "buy": it waits for events, for which the server needs a ledger`)
	require.ErrorContains(t, err, `tool "parcel"`)
	r := newRig(t, server.Options{})
	assert.Error(t, r.srv.Deliver(t.Context(), strings.Repeat("A", 32), nil))
	assert.Error(t, r.srv.Signal(t.Context(), "a", "b", "c", nil))
	assert.Equal(t, 404, postEvent(t, r.srv, strings.Repeat("A", 32), `{}`))
}

// Another deployment's handles are none here.
func TestEventsOfOtherLedgers(t *testing.T) {
	p, tools := newTill(paid)
	o := server.Options{Keys: newKeys(t), Tools: tools}
	servers := []*rig{}
	for _, store := range []ledger.Store{inMemory(t), inMemory(t)} {
		o.Ledger = store
		servers = append(servers, newRig(t, o))
	}
	servers[0].send(callTool("buy", object{}).with(allCapabilities))
	handle := <-p.handles
	assert.Equal(t, 404, postEvent(t, servers[1].srv, handle, `{"amount":5}`))
	assert.Less(t, postEvent(t, servers[0].srv, handle, `{"amount":5}`), 300)
}

// A call of a client that can be asked nothing is held while the tool waits for an event.
func TestEventsOfCallsThatAreAnsweredElsewhere(t *testing.T) {
	handles := make(chan string, 1)
	pay := &saga.Effect[string, string]{Name: "pay", Do: func(_ context.Context, _ saga.Key, handle string) (string, error) {
		handles <- handle
		return "", nil
	}}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{askNick, paid}, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			who, err := saga.Ask(r, askNick)
			if err != nil {
				return "", err
			}
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, handle); err != nil {
				return "", err
			}
			got, err := saga.Ask(r, paid)
			return fmt.Sprintf("%s paid %d", who.Nick, got.Amount), err
		},
	}
	r := newRig(t, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{tool}})
	first := waitsOf(t, r.send(callTool("buy", object{})).Result)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		end := r.send(callTool("buy", object{"resumeToken": first.ResumeToken, "answers": object{"nick": object{"nick": "Jo"}}})).result(t)
		assert.Equal(t, "Jo paid 5", end.text())
	})
	assert.Less(t, postEvent(t, r.srv, <-handles, `{"amount":5}`), 300)
	waiting.Wait()
}

// A server has the address of events beside MCP, if it is told so: who delivers there is not asked who they are.
func TestEventsHaveAPath(t *testing.T) {
	p, tools := newTill(paid)
	o := server.Options{Ledger: inMemory(t), Tools: tools, EventPath: "/events", MaxBody: 2000, Authenticate: func(*http.Request) (saga.Caller, error) {
		return saga.Caller{}, errors.New("who are you?")
	}}
	r := newRig(t, o)
	_, err := r.srv.Handle(t.Context(), &server.Request{Method: "tools/callSaga", Params: []byte(`{"name":"buy"}`)})
	require.NoError(t, err)
	handle := <-p.handles
	status, _ := r.do(http.MethodPost, "/mcp", "{}", nil)
	assert.Equal(t, http.StatusUnauthorized, status)
	for _, try := range []struct {
		path, body string
		want       int
	}{
		{handle, strings.Repeat(" ", 3000), http.StatusRequestEntityTooLarge}, {"other", "{}", http.StatusNotFound}, {"", "{}", http.StatusNotFound},
		{handle + "/reject/x", "{}", http.StatusNotFound}, {handle, `{"amount":5}`, http.StatusOK}, {handle, `{"amount":6}`, http.StatusConflict},
	} {
		status, body := r.do(http.MethodPost, "/events/"+try.path, try.body, nil)
		assert.Equal(t, try.want, status, "%s: %s", try.path, body)
	}
	for at, why := range map[string]string{"events": "plain path", "/": "plain path", "/mcp": "plain path", "/a b": "plain path", "/ask": "plain path", "/ask/waiting": "plain path", "/readyz": "plain path", "/events": "need Options.Ledger"} {
		o := server.Options{Keys: newKeys(t), Tools: taskTools()[:1], EventPath: at}
		if strings.HasPrefix(at, "/ask") {
			o.Ledger, o.Questions.PageURL = inMemory(t), pagesAt
		}
		_, err := server.New(o)
		assert.ErrorContains(t, err, why, at)
	}
}
