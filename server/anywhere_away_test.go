package server_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// newAway are three servers whose ledger can be away.
func newAway(t *testing.T, tools ...saga.Definition) (*anywhere, *troubled) {
	memory := ledger.NewMemory(ledger.MemoryOptions{})
	store := newTroubled(memory)
	t.Cleanup(func() { _ = memory.Close() })
	return &anywhere{replicas(t, 3, server.Options{Ledger: store, Tools: tools}), nil, 0}, store
}

// Wherever the ledger goes away, what needs it is to be sent again, and then goes on; all else
// is served.
func TestCallsWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := new(world)
		a, store := newAway(t, roundsTool(w), legacySum)
		c := a.rigs[0].connect("2025-11-25", everything)
		retry := func(what, answer string) {
			t.Helper()
			assert.Contains(t, answer, `"code":-31503`, what)
			assert.Contains(t, answer, `"retryable":true`, what)
		}
		// At the call.
		store.setDown(true)
		retry("the call", c.ask503(roundsCall(1, 1, "I")))
		assert.Empty(t, w.was())
		assert.Contains(t, c.ask(toolCall(2, "sum", `{}`)), `"sum":3`)
		store.setDown(false)
		s := c.stream(roundsCall(1, 2, "I"))
		q := s.wait("elicitation/create")
		// At the answer, wherever it is, and for a client that reads on.
		store.setDown(true)
		for _, r := range a.rigs {
			resp := c.at(r).post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + named("x") + `}`)
			body := readAll(t, resp)
			assert.Equal(t, 503, resp.StatusCode, body)
			retry("the answer", body)
		}
		resp := c.at(a.rigs[1]).request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", q.id) })
		body := readAll(t, resp)
		assert.Equal(t, 503, resp.StatusCode, body)
		retry("reading on", body)
		resp = c.at(a.rigs[2]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		body = readAll(t, resp)
		assert.Equal(t, 503, resp.StatusCode, body)
		retry("cancelling", body)
		store.setDown(false)
		c.at(a.rigs[2]).reply(q.ID, named("x"))
		s = c.at(a.rigs[1]).get(q.id) // nothing has read the other stream for long
		q = s.wait("elicitation/create")
		// Between the answer and the end.
		c.at(a.rigs[1]).reply(q.ID, named("y"))
		store.setDown(true)
		time.Sleep(300 * time.Millisecond)
		store.setDown(false)
		said, _ := text(t, s.wait("").Result)
		assert.Equal(t, "I x y", said)
		assert.Equal(t, "+", w.was())
	})
}

// ask503 is ask for what is refused by the status, too.
func (c *legacyClient) ask503(message string) string {
	c.t.Helper()
	resp := c.post(message)
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return c.read(resp).wait("").data
	}
	return readAll(c.t, resp)
}

// Whatever meets at one moment on several replicas, a call ends once, with all done or all undone,
// and nothing that was accepted is lost.
func TestEverythingAtOnce(t *testing.T) {
	const calls = 48
	var did, undid [calls]atomic.Int32
	hold := &saga.Effect[int, empty]{
		Name: "hold",
		Do:   func(_ context.Context, _ saga.Key, i int) (empty, error) { did[i].Add(1); return empty{}, nil },
		Undo: func(_ context.Context, p saga.Performed[int, empty]) error { undid[p.In].Add(1); return nil },
	}
	a := newAnywhere(t, saga.Flow[roundsArgs, string]{
		Info: saga.Info{Name: "rounds", Asks: []steps.Question{legacyForm}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, a roundsArgs) (string, error) {
			if _, err := saga.Do(r, hold, a.Rounds); err != nil {
				return "", err
			}
			if err := r.AskAll(legacyForm); err != nil {
				return "", err
			}
			form, err := legacyForm.Answer(r)
			return "done " + form.Name, err
		},
	})
	var all sync.WaitGroup
	// One that was over when it was called again is another call, which nobody answers.
	ended := func(i int) bool { return undid[i].Load() == 1 }
	for i := range calls {
		c := a.rigs[i%3].connect("2025-11-25", everything)
		all.Go(func() {
			s := c.stream(roundsCall(7, i, "I"))
			q := s.wait("elicitation/create")
			var now sync.WaitGroup
			var taken atomic.Bool
			at := func(do func(*legacyClient)) {
				there := c.at(a.rigs[rand.N(3)])
				now.Go(func() { do(there) })
			}
			answer := func(c *legacyClient) {
				resp := c.post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + named("x") + `}`)
				if readAll(t, resp); resp.StatusCode == 202 {
					taken.Store(true)
				} else {
					assert.Contains(t, []int{400, 404}, resp.StatusCode)
				}
			}
			cancel := func(c *legacyClient) {
				resp := c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
				if readAll(t, resp); resp.StatusCode == 202 {
					taken.Store(true)
				}
			}
			deleted := i%8 == 7
			at(answer)
			if i%2 == 1 {
				at(cancel)
			}
			if i%4 == 2 {
				at(answer)
			}
			if i%3 == 1 {
				now.Go(s.close)
			}
			for range i % 5 {
				at(func(c *legacyClient) {
					resp := c.request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", q.id) })
					time.Sleep(rand.N(20 * time.Millisecond))
					resp.Body.Close()
				})
			}
			if i%6 == 5 {
				at(func(c *legacyClient) {
					resp := c.post(roundsCall(7, i, "I"))
					time.Sleep(rand.N(20 * time.Millisecond))
					resp.Body.Close()
				})
			}
			if deleted {
				at(func(c *legacyClient) { readAll(t, c.request("DELETE", "", nil)) })
			}
			now.Wait()
			if deleted {
				return
			}
			assert.True(t, taken.Load())
			for begun := time.Now(); ; {
				resp := c.at(a.rigs[rand.N(3)]).request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", q.id) })
				var m sseEvent
				err := io.EOF // unless there is an answer
				if resp.StatusCode != 503 {
					s := c.read(resp)
					for m, err = s.next(); err == nil && (m.data == "" || m.Method != ""); m, err = s.next() {
					}
				}
				resp.Body.Close()
				if err == nil {
					said, bad := text(t, m.Result)
					if bad { // whoever has cancelled it ignores that
						assert.Contains(t, said, "Cancelled.")
						assert.True(t, ended(i))
						return
					}
					assert.Equal(t, "done x", said)
					assert.LessOrEqual(t, undid[i].Load(), did[i].Load()-1, "%d", i)
					return
				}
				if ended(i) || err == io.EOF && resp.StatusCode == 200 && i%2 == 1 {
					return // whoever has cancelled a call gets no answer, also if it was too late
				}
				if !assert.Less(t, time.Since(begun), time.Minute, "%d has not ended: %v %v", i, did[i].Load(), undid[i].Load()) {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	all.Wait()
	for i := range calls {
		again := int32(1)
		if i%6 == 5 { // it may have been over when it was called again
			again = 2
		}
		assert.LessOrEqual(t, did[i].Load(), again, "%d", i)
		assert.LessOrEqual(t, undid[i].Load(), did[i].Load(), "%d", i)
	}
}
