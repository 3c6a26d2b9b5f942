package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A resource that was read with an idempotency key is read on elsewhere as well.
func TestKeyedResourceAtAnyReplica(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	c := a.rigs[0].connect("2025-11-25", everything)
	for _, test := range []struct{ call, want string }{
		{methodCall(3, "prompts/get", `{"name":"greeting","arguments":{"name":"Ann"},"_meta":{"io.github.mcpsaga/idempotencyKey":"k3"}}`), "Ann greets Jo"},
		{methodCall(4, "resources/read", `{"uri":"notes://ask","_meta":{"io.github.mcpsaga/idempotencyKey":"k4"}}`), `"uri":"notes://ask","blob":"Sm8="`},
	} {
		s := c.stream(test.call)
		q := s.wait("elicitation/create")
		s.close()
		s = c.at(a.rigs[1]).get(q.id)
		assert.Equal(t, q.ID, s.wait("elicitation/create").ID)
		c.at(a.rigs[2]).reply(q.ID, named("Jo"))
		assert.Contains(t, s.wait("").data, test.want)
	}
}

// A replica of another version, which lacks what was called, answers with what has come of it.
func TestReadOnWhereTheProgramIsMissing(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	o := server.Options{Keys: newKeys(t), Ledger: a.store}
	o.Tools = legacyDefinitions()
	here := newRig(t, o)
	o.Tools = []saga.Definition{legacySum}
	there := newRig(t, o)
	c := here.connect("2025-11-25", everything)
	for _, test := range []struct{ call, want string }{
		{methodCall(3, "prompts/get", `{"name":"greeting","arguments":{"name":"Ann"}}`), "Ann greets Jo"},
		{methodCall(4, "resources/read", `{"uri":"notes://ask"}`), `"uri":"notes://ask","blob":"Sm8="`},
	} {
		s := c.stream(test.call)
		q := s.wait("elicitation/create")
		c.reply(q.ID, named("Jo"))
		assert.Contains(t, s.wait("").data, test.want)
		assert.Contains(t, c.at(there).get(q.id).wait("").data, test.want)
	}
}

type greetArgs struct {
	Name string `json:"name"`
}

// A request with the id of another one that is under way at another replica is not that.
func TestSameIDOfAnotherMethod(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions(saga.Machine[greetArgs, string]{
		Info:  saga.Info{Name: "greeting", Asks: []steps.Question{legacyForm}},
		Start: func(t *saga.Turn[greetArgs, string]) (saga.Next, error) { return t.Ask("asked", legacyForm) },
		Steps: saga.Steps[greetArgs, string]{"asked": func(t *saga.Turn[greetArgs, string]) (saga.Next, error) { return t.Textf("tool") }},
	})...)
	c := a.rigs[0].connect("2025-11-25", everything)
	s := c.stream(methodCall(3, "prompts/get", `{"name":"greeting","arguments":{"name":"Ann"}}`))
	q := s.wait("elicitation/create")
	assert.Contains(t, c.at(a.rigs[1]).ask(toolCall(3, "greeting", `{"name":"Ann"}`)), "in use")
	c.reply(q.ID, named("Jo"))
	assert.Contains(t, s.wait("").data, "Ann greets Jo")
}

// Whoever reads on gets no answer to another request, nor one that ends what goes on.
func TestReadOnWithoutRoom(t *testing.T) {
	leave := make(chan struct{})
	a := newAnywhere(t, roundsTool(new(world)), tool("works", func(t *plain) (saga.Next, error) {
		t.Progress(1, 2, "begun")
		<-leave
		return t.Textf("done")
	}))
	defer close(leave)
	c := a.rigs[0].connect("2025-11-25", everything)
	s := c.stream(roundsCall(1, 1, "I"))
	q := s.wait("elicitation/create")
	there := c.at(a.rigs[1])
	for i := range 100 {
		there.stream(toolCall(10+i, "works", `{}`)).wait("notifications/progress")
	}
	resp := there.request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", q.id) })
	body := readAll(t, resp)
	assert.NotContains(t, body, `"id":1,`, "%s", body)
	assert.Equal(t, 503, resp.StatusCode, body)
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	c.reply(q.ID, named("x"))
	said, _ := text(t, s.wait("").Result)
	assert.Equal(t, "I x", said)
}

// Nothing that stands in a Last-Event-ID does harm.
func TestEventIDsAreNotTrusted(t *testing.T) {
	a := newAnywhere(t, roundsTool(new(world)))
	c := a.rigs[0].connect("2025-11-25", everything)
	other := a.rigs[1].connect("2025-11-25", everything)
	s := c.stream(roundsCall(1, 1, "I"))
	q := s.wait("elicitation/create")
	s2 := c.stream(roundsCall(2, 1, "I"))
	q2 := s2.wait("elicitation/create")
	stem, rest, _ := strings.Cut(q.id, "_")
	_, mark, _ := strings.Cut(rest, ".")
	_, number, _ := strings.Cut(mark, ".")
	_, rest2, _ := strings.Cut(q2.id, "_")
	for _, id := range []string{
		stem, stem + "_", stem + "_x", stem + "_-1", stem + "_99999999999999999999", strings.Repeat("x", 8000), "_", "-", "--_1", "p--_1", "p-1_1.0.zzzzzzzzzzzzzzz",
		"pX-1_1.0.ffffffff", "-1--1_1", "gX_1", "\xff\xfe_1", stem + "_1", stem + "_1.0." + number[:len(number)-1], stem + "_1.0." + number + ".1", stem + "_1..-1",
		stem + "_9223372036854775807..", stem + "_1." + strings.Repeat("9", 4000), stem + "_0", stem + "_7", "pELSE-3_1",
	} {
		resp := c.at(a.rigs[2]).request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", id) })
		if strings.HasPrefix(id, "g") {
			resp.Body.Close()
			continue
		}
		assert.Equal(t, 400, resp.StatusCode, id)
		assert.NotContains(t, readAll(t, resp), "elicitation")
	}
	for _, id := range []string{stem + "_", stem + "_x", stem + "_-1", stem + "_99999999999999999999"} { // where the stream is
		resp := c.at(a.rigs[0]).request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", id) })
		assert.Equal(t, 400, resp.StatusCode, id)
		resp.Body.Close()
	}
	for _, id := range []string{q.id, stem + "_0.0." + number, stem + "_1.9223372036854775807." + number, stem + "_" + rest2} {
		resp := other.at(a.rigs[2]).request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", id) })
		assert.Equal(t, 400, resp.StatusCode, id)
		assert.NotContains(t, readAll(t, resp), "elicitation")
	}
	for _, id := range []string{
		stem + "_0.0." + number, stem + "_7.0." + number, stem + "_1.9223372036854775807." + number, stem + "_1.99999999999999999999." + number,
		stem + "_1." + strings.Repeat("9", 4000) + "." + number, "pELSE-3_1.0." + number,
	} {
		s = c.at(a.rigs[2]).get(id)
		assert.Equal(t, q.ID, s.wait("elicitation/create").ID, id)
	}
	s2 = c.at(a.rigs[2]).get(stem + "_" + rest2) // the request is what counts, not the stream
	assert.Equal(t, q2.ID, s2.wait("elicitation/create").ID)
	c.reply(q.ID, named("x"))
	s.wait("")
}

// byName lets everybody in as who he says he is, and who says nothing as nobody.
func byName(r *http.Request) (saga.Caller, error) {
	if name := r.Header.Get("Name"); name != "" {
		return saga.Caller{Subject: name}, nil
	}
	return saga.Caller{}, nil
}

// Of a principal's calls as many wait as the limit says, over all replicas and sessions. What needs
// no record is served, and what ends makes room.
func TestCallsAreBounded(t *testing.T) {
	w := new(world)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	tells := saga.Machine[empty, string]{Info: saga.Info{Name: "says"}, Start: func(t *saga.Turn[empty, string]) (saga.Next, error) {
		t.Progress(1, 2, "says")
		time.Sleep(100 * time.Millisecond)
		return t.Textf("said")
	}}
	tools := []saga.Definition{roundsTool(w), tells, legacySum}
	r := replicas(t, 2, server.Options{Ledger: store, Tools: tools, LedgerLimit: 3, Authenticate: byName})
	ann := func(c *legacyClient) { c.header.Set("Name", "ann") }
	var waiting []sseEvent
	var all []*legacyClient
	for range 3 {
		c := r[0].connect("2025-11-25", everything, ann) // what others have made lately may not be seen
		all = append(all, c)
		waiting = append(waiting, c.stream(roundsCall(1, 1, "I")).wait("elicitation/create"))
	}
	assert.Equal(t, "+ + +", w.was())
	for i := range 2 {
		c := r[i].connect("2025-11-25", everything, ann)
		refused := c.ask(roundsCall(2, 1, "I"))
		assert.Contains(t, refused, "too many")
		assert.Contains(t, c.ask(toolCall(3, "sum", `{}`)), `"sum":3`)
		assert.Contains(t, c.ask(toolCall(4, "says", `{}`)), `"said"`)
	}
	assert.Equal(t, "+ + +", w.was(), "what was refused has done nothing")
	all[0].reply(waiting[0].ID, named("x"))
	c := r[0].connect("2025-11-25", everything, ann)
	until(t, func() bool {
		resp := c.post(roundsCall(5, 1, "I"))
		defer resp.Body.Close()
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			return false
		}
		m := c.read(resp).message()
		return m.Method == "elicitation/create"
	})
}

// Who is not known has an account with a few other sessions only: one that takes all that there is
// in it does not take it from all.
func TestStrangersHaveAccountsBySession(t *testing.T) {
	w := new(world)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	r := replicas(t, 2, server.Options{Ledger: store, Tools: []saga.Definition{roundsTool(w)}, LedgerLimit: 8})
	asks := func(c *legacyClient, id int) (end func(), refused bool) {
		resp := c.post(roundsCall(id, 1, "I"))
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			assert.Contains(t, readAll(t, resp), "too many")
			return nil, true
		}
		s := c.read(resp)
		q := s.message()
		if q.Method == "" {
			assert.Contains(t, q.data, "too many")
			return nil, true
		}
		return func() { c.reply(q.ID, named("x")); s.wait("") }, false
	}
	others := func() (served bool) {
		for i := range 8 { // one of them has another account, unless luck is very bad
			if _, refused := asks(r[i%2].connect("2025-11-25", everything), 1); !refused {
				return true
			}
		}
		return false
	}
	c := r[0].connect("2025-11-25", everything)
	var waiting []func()
	for i := range 2 { // a quarter of what a principal has
		end, refused := asks(c, i)
		require.False(t, refused)
		waiting = append(waiting, end)
	}
	_, refused := asks(c, 3)
	assert.True(t, refused)
	assert.True(t, others())
	for _, end := range waiting {
		end()
	}
	until(t, func() bool { // who was refused is not counted again at once
		end, refused := asks(c, 4)
		if !refused {
			end()
		}
		return !refused
	})
	assert.True(t, others())
}

// Of two answers to one question that meet at two replicas one counts, and the other one is refused:
// whoever reads that an answer was taken relies on it.
func TestOneAnswerCounts(t *testing.T) {
	a := newAnywhere(t, roundsTool(new(world)))
	c := a.rigs[0].connect("2025-11-25", everything)
	for i := range 40 {
		s := c.stream(roundsCall(i+1, 1, "I"))
		q := s.wait("elicitation/create")
		var both sync.WaitGroup
		var status [2]int
		for j := range status {
			both.Go(func() {
				resp := c.at(a.rigs[j+1]).post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, named(fmt.Sprint(j))))
				readAll(t, resp)
				status[j] = resp.StatusCode
			})
		}
		both.Wait()
		said, _ := text(t, s.wait("").Result)
		for j := range status {
			if said == fmt.Sprint("I ", j) {
				assert.Equal(t, 202, status[j])
			} else {
				assert.Equal(t, 400, status[j])
			}
		}
	}
}

// While a worker has taken a task that waits, as it may be over, an answer to it is not lost.
func TestAnswerWhileAWorkerLooks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		store := ledger.NewMemory(ledger.MemoryOptions{})
		t.Cleanup(func() { _ = store.Close() })
		taken := &takenFor{Store: store}
		r := replicas(t, 2, server.Options{Ledger: taken, Tools: []saga.Definition{roundsTool(new(world))}})
		c := r[0].connect("2025-11-25", everything)
		s := c.stream(roundsCall(1, 1, "I"))
		q := s.wait("elicitation/create")
		taken.loads.Store(2) // once to find the question, once to answer it
		c.at(r[1]).reply(q.ID, named("x"))
		said, _ := text(t, s.wait("").Result)
		assert.Equal(t, "I x", said)
		assert.Zero(t, taken.loads.Load())
	})
}

// takenFor shows records of tasks that wait as taken, so many times.
type takenFor struct {
	ledger.Store
	loads atomic.Int32
}

func (s *takenFor) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	r, err := s.Store.Load(ctx, id)
	if err == nil && r.Mode == store.ModeCall && s.loads.Load() > 0 {
		s.loads.Add(-1)
		r.Until = r.Now.Add(time.Second)
	}
	return r, err
}
