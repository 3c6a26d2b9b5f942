package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Two servers with one ledger take each turn once, whoever asks how often, and say the same
// to all: in every dialect whose clients carry a token.
func TestTurnsAreTakenOnce(t *testing.T) {
	for store, open := range ledgers(t) {
		for dialect, say := range talks {
			t.Run(store+"/"+dialect, func(t *testing.T) {
				s := &seats{slow: 20 * time.Millisecond}
				o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}}
				o.Ledger = open()
				here := newRig(t, o)
				o.Ledger = open()
				there := newRig(t, o)

				_, body := say(here, "", nil)
				first := tokenOf(t, body)
				var all sync.WaitGroup
				bodies := make([]string, 20)
				for i := range bodies {
					all.Go(func() {
						status := 0
						status, bodies[i] = say([]*rig{here, there}[i%2], first, rowSeven)
						assert.Equal(t, http.StatusOK, status, bodies[i])
					})
				}
				all.Wait()
				for _, body := range bodies {
					require.Equal(t, bodies[0], body, "byte for byte")
				}
				held, calls := s.now()
				assert.Equal(t, 1, held)
				assert.Equal(t, 1, calls)
				second := tokenOf(t, bodies[0])

				// Other answers to a turn that was taken are refused like any bad token.
				_, bad := say(here, "1AAAA", rowEight)
				here.log.take()
				_, spent := say(here, first, rowEight)
				assert.Equal(t, bad, spent)
				assert.Contains(t, here.log.take(), "spent")
				// The same ones get the same, also later and elsewhere.
				_, again := say(there, first, rowSeven)
				assert.Equal(t, bodies[0], again)

				_, end := say(there, second, sevenSure)
				assert.Contains(t, end, "seat in 7")
				_, again = say(here, second, sevenSure)
				assert.Equal(t, end, again)

				// The end is final, whatever old token comes.
				_, spent = say(here, second, sevenDoubt)
				assert.Equal(t, bad, spent)
				_, spent = say(here, first, rowEight)
				assert.Equal(t, bad, spent)
				for _, token := range []string{first, second} {
					_, body := here.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", token, nil), nil)
					assert.NotContains(t, body, "hold", "nothing is undone: %s", body)
				}
				held, calls = s.now()
				assert.Equal(t, 1, held)
				assert.Equal(t, 1, calls)
			})
		}
	}
}

// A saga that is cancelled with an old token is cancelled where it is now; and it stays so.
func TestCancelWithAnOldToken(t *testing.T) {
	for store, open := range ledgers(t) {
		t.Run(store, func(t *testing.T) {
			s := new(seats)
			r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}, Ledger: open()})
			_, body := inSaga(r, "", nil)
			first := tokenOf(t, body)
			_, body = inSaga(r, first, rowSeven)
			second := tokenOf(t, body)
			_, body = r.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", first, nil), nil)
			assert.Equal(t, []string{"hold"}, undone(t, body))
			held, _ := s.now()
			assert.Zero(t, held)
			_, body = inSaga(r, second, sevenSure)
			require.NotNil(t, parse(t, body).Error, body)
			_, body = r.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", second, nil), nil)
			assert.Nil(t, parse(t, body).Error, "it says what became of it: %s", body)
		})
	}
}

// Nobody comes back: what was held is released when the time is over, by whichever server is
// there. Who comes later reads so.
func TestAbandonedSagaIsUndone(t *testing.T) {
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	store := ledger.NewMemory(ledger.MemoryOptions{Now: now.Now})
	s := new(seats)
	o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}, Ledger: store, Now: now.Now, TokenTTL: time.Hour}
	r := newRig(t, o)
	_, body := inSaga(r, "", nil)
	first := tokenOf(t, body)
	_, body = inSaga(r, first, rowSeven)
	second := tokenOf(t, body)
	r.srv.Close() // this server stops
	other := newRig(t, o)
	now.set(now.Now().Add(30 * time.Minute))
	time.Sleep(50 * time.Millisecond)
	held, _ := s.now()
	require.Equal(t, 1, held, "it is not too late yet")
	now.set(now.Now().Add(35 * time.Minute))
	require.Eventually(t, func() bool { held, _ := s.now(); return held == 0 }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		_, body := other.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", second, nil), nil)
		return assert.ObjectsAreEqual([]string{"hold"}, undone(t, body))
	}, time.Minute, 10*time.Millisecond, "who comes later is told")
	_, body = inSaga(other, second, sevenSure)
	assert.NotContains(t, body, "seat in 7")
	held, calls := s.now()
	assert.Zero(t, held)
	assert.Equal(t, 1, calls)
}

// A first call that is repeated with its key is the same saga, in every dialect.
func TestRepeatedFirstCall(t *testing.T) {
	for store, open := range ledgers(t) {
		t.Run(store, func(t *testing.T) {
			s := new(seats)
			o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool(), complextool.Tool}}
			o.Ledger = open()
			here := newRig(t, o)
			o.Ledger = open()
			there := newRig(t, o)
			call := func(r *rig, key, method, params string) string {
				_, body := r.do(http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/%s","params":{"name":%s}}`, method, params), func(q *http.Request) {
					q.Header.Set("Idempotency-Key", key)
				})
				return body
			}
			one := call(here, "key-1", "callSaga", `"seat"`)
			assert.Equal(t, one, call(there, `"key-1"`, "callSaga", `"seat"`), "byte for byte")
			assert.NotEqual(t, one, call(there, "key-2", "callSaga", `"seat"`))
			other := parse(t, call(there, "key-1", "callSaga", `"seat","arguments":{"x":1}`))
			require.NotNil(t, other.Error)
			assert.Equal(t, -32602, other.Error.Code)
			assert.Contains(t, other.Error.Message, "key")

			modern := callTool("seat", nil).with(allCapabilities)
			modern.meta["io.github.mcpsaga/idempotencyKey"] = "key-3"
			assert.Equal(t, here.send(modern).raw, there.send(modern).raw)
			assert.NotEqual(t, call(here, "k", "callSaga", `"complex_tool","arguments":{"initial_arg":"x"}`), call(here, "k", "callSaga", `"complex_tool","arguments":{"initial_arg":"x"}`), "it has no use for keys")

			var list struct {
				Result struct {
					Tools []struct {
						Name string
						Meta map[string]json.RawMessage `json:"_meta"`
					}
				}
			}
			require.NoError(t, json.Unmarshal([]byte(here.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)), &list))
			require.Len(t, list.Result.Tools, 2)
			assert.Equal(t, "true", string(list.Result.Tools[0].Meta["io.github.mcpsaga/idempotencyKey"]))
			assert.NotContains(t, list.Result.Tools[1].Meta, "io.github.mcpsaga/idempotencyKey")
		})
	}
}

// Without a ledger everything is as it was: sagas fork, and the list says nothing of keys.
func TestWithoutALedger(t *testing.T) {
	s := new(seats)
	r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}})
	_, body := inSaga(r, "", nil)
	first := tokenOf(t, body)
	for _, row := range []object{rowSeven, rowEight} {
		_, body = inSaga(r, first, row)
		tokenOf(t, body)
	}
	assert.NotContains(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), "idempotencyKey")
}

// A tool that demands single use is not served by who cannot keep it.
func TestRequiredSingleUseNeedsALedger(t *testing.T) {
	tool := new(seats).tool()
	tool.SingleUse = saga.SingleUseRequired
	o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}}
	_, err := server.New(o)
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "seat", wrong.Tool)
	assert.ErrorContains(t, err, "ledger")
	o.Ledger = ledger.NewMemory(ledger.MemoryOptions{})
	_, err = server.New(o)
	require.NoError(t, err)
}

// Clients that know no tokens are served as ever, and what ended well stays.
func TestOlderClientsWithALedger(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
		store := ledger.NewMemory(ledger.MemoryOptions{Now: now.Now})
		s := new(seats)
		r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}, Ledger: store, Now: now.Now})
		c := r.connect("2025-11-25", everything)
		events := c.stream(toolCall(7, "seat", `{}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"7"}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"sure":true}`))
		assert.Contains(t, events.wait("").data, "seat in 7")
		events = c.stream(toolCall(8, "seat", `{}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"8"}`))
		c.reply(events.wait("elicitation/create").ID, `{"action":"decline"}`)
		events.wait("")
		held, calls := s.now()
		assert.Equal(t, 1, held)
		assert.Equal(t, 2, calls)
		now.set(now.Now().Add(24 * time.Hour))
		time.Sleep(1500 * time.Millisecond) // the store looks at its clock each second
		held, _ = s.now()
		assert.Equal(t, 1, held)
	})
}

// A caller may have so many sagas under way, and no more; one that ends makes room.
func TestLedgerLimit(t *testing.T) {
	r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{new(seats).tool()}, Ledger: ledger.NewMemory(ledger.MemoryOptions{}), LedgerLimit: 1})
	_, body := inSaga(r, "", nil)
	status, _ := inSaga(r, tokenOf(t, body), rowSeven)
	assert.Equal(t, http.StatusOK, status)
	_, body = inSaga(r, "", nil)
	status, body = inSaga(r, tokenOf(t, body), rowSeven)
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Contains(t, body, "too many sagas")
}

// A request that waits for its like longer than a turn may take is told to come back.
func TestTurnUnderWayElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(seats)
		tool := s.tool()
		hold := tool.Effects[0].(*saga.Effect[string, string])
		begun, goOn := make(chan struct{}), make(chan struct{})
		hold.Do = func(ctx context.Context, k saga.Key, row string) (string, error) {
			close(begun)
			<-goOn
			return s.hold(ctx, k, row)
		}
		o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}, Ledger: ledger.NewMemory(ledger.MemoryOptions{})}
		r := newRig(t, o)
		o.TurnTimeout = 50 * time.Millisecond
		other := newRig(t, o)
		_, body := inSaga(r, "", nil)
		token := tokenOf(t, body)
		done := make(chan string)
		go func() {
			_, body := inSaga(r, token, rowSeven)
			done <- body
		}()
		<-begun
		status, body := inSaga(other, token, rowSeven)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, "-31503")
		assert.Contains(t, body, "still being worked on")
		close(goOn)
		first := <-done
		_, again := inSaga(other, token, rowSeven)
		assert.Equal(t, first, again)
	})
}
