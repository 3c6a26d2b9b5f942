package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// outageRig is a server whose ledger can be away, with a tool for turns and tools for tasks.
func outageRig(t *testing.T) (*rig, *troubled, *seats) {
	s := new(seats)
	store := newTroubled(inMemory(t))
	return newRig(t, server.Options{Tools: append(taskTools(), s.tool()), Authenticate: users, Ledger: store}), store, s
}

// answerings are what a client sends once, while the ledger is away, and what must become of that.
// Each prepares it and returns what sends it, and what looks how it has ended.
var answerings = map[string]func(t *testing.T, r *rig, s *seats) (send func() (status int, body string), end func(body string)){
	"answer of a session": func(t *testing.T, r *rig, _ *seats) (func() (int, string), func(string)) {
		c := r.connect("2025-11-25", everything)
		events := c.stream(toolCall(7, "seat", `{}`))
		id := events.wait("elicitation/create").ID
		return func() (int, string) {
				resp := c.post(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + accepted(`{"row":"7"}`) + `}`)
				return resp.StatusCode, readAll(t, resp)
			}, func(string) {
				c.reply(events.wait("elicitation/create").ID, accepted(`{"sure":true}`))
				assert.Contains(t, events.wait("").data, "seat in 7")
			}
	},
	"cancellation in a session": func(t *testing.T, r *rig, s *seats) (func() (int, string), func(string)) {
		c := r.connect("2025-11-25", everything)
		events := c.stream(toolCall(7, "seat", `{}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"7"}`))
		events.wait("elicitation/create")
		return func() (int, string) {
				resp := c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
				return resp.StatusCode, readAll(t, resp)
			}, func(string) {
				time.Sleep(time.Minute)
				held, _ := s.now()
				assert.Zero(t, held, "it is undone")
			}
	},
	"end of a session": func(t *testing.T, r *rig, s *seats) (func() (int, string), func(string)) {
		c := r.connect("2025-11-25", everything)
		events := c.stream(toolCall(7, "seat", `{}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"7"}`))
		events.wait("elicitation/create")
		return func() (int, string) {
				resp := c.request(http.MethodDelete, "", nil)
				return resp.StatusCode, readAll(t, resp)
			}, func(string) {
				time.Sleep(time.Minute)
				held, _ := s.now()
				assert.Zero(t, held, "it is undone")
				resp := c.post(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
				assert.Equal(t, 404, resp.StatusCode, readAll(t, resp))
			}
	},
	"call of a session": func(t *testing.T, r *rig, _ *seats) (func() (int, string), func(string)) {
		c := r.connect("2025-11-25", everything)
		var events *sseReader
		return func() (int, string) {
				resp := c.post(toolCall(7, "seat", `{}`))
				if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
					return 599, readAll(t, resp)
				}
				events = c.read(resp)
				return 200, ""
			}, func(string) {
				c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"7"}`))
				c.reply(events.wait("elicitation/create").ID, accepted(`{"sure":true}`))
				assert.Contains(t, events.wait("").data, "seat in 7")
			}
	},
	"answer of a task": func(t *testing.T, r *rig, _ *seats) (func() (int, string), func(string)) {
		begun := r.begin(callTool("both", nil))
		r.until(begun.TaskID, "input_required")
		return func() (int, string) {
				m := r.send(taskRequest("update", begun.TaskID, object{"inputResponses": object{
					"nick": formed(object{"nick": "Ann"}), "sure": formed(object{"sure": true}),
				}}))
				return m.status, m.raw
			}, func(string) {
				assert.Equal(t, "Ann: true", r.until(begun.TaskID, "completed").Result.text())
			}
	},
	"cancellation of a task": func(t *testing.T, r *rig, _ *seats) (func() (int, string), func(string)) {
		begun := r.begin(callTool("both", nil))
		r.until(begun.TaskID, "input_required")
		return func() (int, string) {
			m := r.send(taskRequest("cancel", begun.TaskID))
			return m.status, m.raw
		}, func(string) { r.until(begun.TaskID, "cancelled") }
	},
	"turn that another request takes": func(t *testing.T, r *rig, s *seats) (func() (int, string), func(string)) {
		_, body := inSaga(r, "", nil)
		token := tokenOf(t, body)
		s.slow = 3 * time.Second
		first, again := make(chan string, 1), make(chan string, 1)
		var status int
		go func() { _, body := inSaga(r, token, rowSeven); first <- body }()
		time.Sleep(time.Second)
		go func() {
			var body string
			status, body = inSaga(r, token, rowSeven)
			again <- body
		}()
		time.Sleep(time.Second)
		return func() (int, string) { body := <-again; return status, body },
			func(body string) { assert.Equal(t, <-first, body) }
	},
	"new task": func(t *testing.T, r *rig, _ *seats) (func() (int, string), func(string)) {
		return func() (int, string) {
				m := r.send(callTool("nap", object{"millis": 1}).with(withTasks))
				return m.status, m.raw
			}, func(body string) {
				assert.Equal(t, "awake", r.until(parseModern(t, body).TaskID, "completed").Result.text())
			}
	},
}

func parseModern(t *testing.T, body string) taskShown {
	return readTask(t, parseLegacy(t, body).Result)
}

func init() {
	for dialect, say := range talks {
		answerings["turn of "+dialect] = func(t *testing.T, r *rig, _ *seats) (func() (int, string), func(string)) {
			_, body := say(r, "", nil)
			first := tokenOf(t, body)
			return func() (int, string) { return say(r, first, rowSeven) }, func(body string) {
				_, body = say(r, tokenOf(t, body), sevenSure)
				assert.Contains(t, body, "seat in 7")
			}
		}
	}
}

// No SDK sends an answer again that was refused. So what a client sends while the ledger is away
// for some seconds, or full, is not refused: it waits, and the client notices nothing.
func TestShortOutageLosesNothing(t *testing.T) {
	outages := map[string]func(store *troubled, begins bool){
		"away": func(store *troubled, begins bool) { store.setDown(begins) },
		"full": func(store *troubled, begins bool) { store.full.Store(begins) },
	}
	for what, prepare := range answerings {
		for _, lasts := range []time.Duration{2 * time.Second, 5 * time.Second} {
			for how, outage := range outages {
				t.Run(fmt.Sprintf("%s/%s/%v", what, how, lasts), func(t *testing.T) {
					t.Parallel()
					inBubble(t, func(t *testing.T) {
						r, store, s := outageRig(t)
						send, end := prepare(t, r, s)
						outage(store, true)
						time.AfterFunc(lasts, func() { outage(store, false) })
						begun := time.Now()
						status, body := send()
						require.Less(t, status, 300, body)
						assert.Less(t, time.Since(begun), lasts+time.Second)
						end(body)
					})
				})
			}
		}
	}
}

// An outage that lasts must not gather requests: those who wait are refused when it has lasted for
// some seconds, from then on all others are at once, and never do more than so many wait. When it is
// over all goes on, and the next short one is not noticed again.
func TestLongOutageGathersNoRequests(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r, store, _ := outageRig(t)
		_, body := inSaga(r, "", nil)
		first := tokenOf(t, body)
		store.setDown(true)
		begun := time.Now()
		status, body := inSaga(r, first, rowSeven)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, "-31503")
		assert.InDelta(t, 8, time.Since(begun).Seconds(), 1)
		for range 20 {
			begun := time.Now()
			status, _ := inSaga(r, first, rowSeven)
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Zero(t, time.Since(begun))
			time.Sleep(time.Second)
		}
		store.setDown(false)
		_, body = inSaga(r, first, rowSeven)
		second := tokenOf(t, body)

		time.Sleep(time.Hour)
		store.setDown(true)
		const crowd, most = 1200, 1000
		var all sync.WaitGroup
		var refused atomic.Int32
		for range crowd {
			all.Go(func() {
				if status, _ := inSaga(r, second, sevenSure); status == http.StatusServiceUnavailable {
					refused.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		assert.EqualValues(t, crowd-most, refused.Load(), "at once")
		time.Sleep(time.Second)
		store.setDown(false)
		all.Wait()
		assert.EqualValues(t, crowd-most, refused.Load(), "all that waited had their answer")
	})
}

// An answer of a session waits no longer than all else for a ledger that can be read and not written.
func TestAnswersDoNotWaitForAFullLedger(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		store := newTroubled(inMemory(t))
		r := newRig(t, server.Options{Tools: []saga.Definition{new(seats).tool()}, Ledger: store})
		c := r.connect("2025-11-25", everything)
		events := c.stream(toolCall(7, "seat", `{}`))
		asked := events.wait("elicitation/create")
		store.full.Store(true)
		for _, waits := range []float64{8, 0} {
			begun := time.Now()
			resp := c.post(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":` + accepted(`{"row":"7"}`) + `}`)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, readAll(t, resp))
			assert.InDelta(t, waits, time.Since(begun).Seconds(), 2)
		}
		store.full.Store(false)
		events = c.get(asked.id) // the stream has ended meanwhile
		c.reply(asked.ID, accepted(`{"row":"7"}`))
		next := events.wait("elicitation/create")
		if string(next.ID) == string(asked.ID) { // it was asked again, before the answer had come
			next = events.wait("elicitation/create")
		}
		c.reply(next.ID, accepted(`{"sure":true}`))
		assert.Contains(t, events.wait("").data, "seat in 7")
	})
}

// A tool that needs no ledger is served at once while that is away, also while others wait for it.
func TestOutageDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r, store, _ := outageRig(t)
		_, body := inSaga(r, "", nil)
		first := tokenOf(t, body)
		store.setDown(true)
		go func() { _, _ = inSaga(r, first, rowSeven) }()
		time.Sleep(time.Second)
		begun := time.Now()
		m := r.send(callTool("plain", nil))
		assert.True(t, strings.Contains(m.raw, "done"), m.raw)
		assert.Zero(t, time.Since(begun))
		time.Sleep(time.Minute)
	})
}
