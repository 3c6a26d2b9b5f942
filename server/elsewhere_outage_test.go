package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ledgerstore "github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A client that can only make the same call anew is not to do so because the ledger is away: it waits for the end, or is let go
// with a handle.
func TestHeldCallsOutlastTheLedger(t *testing.T) {
	for _, capabilities := range []string{"of MCP 2026-07-28", `{}`, everything} {
		for away, takes := range map[time.Duration]time.Duration{35 * time.Second: 39 * time.Second, 80 * time.Second: 45 * time.Second} {
			if capabilities == everything && away > time.Minute {
				continue // it is not let go
			}
			t.Run(fmt.Sprint(capabilities, away), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &seats{slow: 20 * time.Second}
					store := newTroubled(inMemory(t))
					pay := &saga.Effect[string, string]{Name: "pay", Do: s.hold, Irreversible: true}
					tool := s.toolWith(pay)
					tool.Run = func(r *saga.Run, _ struct{}) (string, error) { return saga.Do(r, pay, "7") }
					r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{tool}})
					call := func(args object) rpcMessage { return r.send(callTool("seat", args)).rpcMessage }
					if strings.HasPrefix(capabilities, "{") {
						c := r.connect("2025-11-25", capabilities)
						call = func(args object) rpcMessage {
							raw, err := json.Marshal(args)
							require.NoError(t, err)
							return parseMessage(t, c.ask(toolCall(len(raw), "seat", string(raw))))
						}
					}
					time.AfterFunc(2*time.Second, func() { store.setDown(true) })
					time.AfterFunc(away, func() { store.setDown(false) })
					began := time.Now()
					got := call(object{})
					assert.InDelta(t, takes.Seconds(), time.Since(began).Seconds(), 3)
					for strings.Contains(got.raw, `"working"`) {
						first := waitsOf(t, got.Result)
						for got = call(object{"resumeToken": first.ResumeToken}); got.code() == -31503; got = call(object{"resumeToken": first.ResumeToken}) {
							time.Sleep(time.Second)
						}
					}
					assert.Equal(t, "seat in 7", got.result(t).text(), got.raw)
					held, _ := s.now()
					assert.Equal(t, 1, held, "with one key")
				})
			})
		}
	}
}

// A question that is asked on a page alone waits for the ledger, without which there is no link.
func TestLinksOutlastTheLedger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, store := new(seats), newTroubled(inMemory(t))
		tool := s.holdsFirst().(saga.Flow[struct{}, string])
		tool.Routes = steps.RoutePage
		r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{tool}, Questions: server.Questions{PageURL: "http://localhost/ask"}})
		store.before(func(c storetest.Call) {
			if c.Writes() && c.Record != nil && c.Record.Mode == ledgerstore.ModeSession { // the name of the link
				store.before(func(storetest.Call) {})
				store.setDown(true)
				time.AfterFunc(30*time.Second, func() { store.setDown(false) })
			}
		})
		began := time.Now()
		first := waitsOf(t, r.send(callTool("seat", nil)).Result)
		assert.Greater(t, time.Since(began), 30*time.Second)
		assert.NotEmpty(t, first.URL)
		held, calls := s.now()
		assert.Equal(t, []int{1, 1}, []int{held, calls})
	})
}

// aheadTool holds something before it asks, which takes a while.
func aheadTool(d *desk) saga.Definition {
	hold := &saga.Effect[empty, empty]{
		Name: "hold",
		Do: func(_ context.Context, key saga.Key, _ empty) (empty, error) {
			d.set(key, true)
			time.Sleep(3 * time.Second) //sagavet:ignore in virtual time
			return empty{}, nil
		},
		Undo: func(_ context.Context, p saga.Performed[empty, empty]) error { d.set(p.Key, false); return nil },
	}
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: "ahead", Asks: []steps.Question{askSure}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Do(r, hold, empty{}); err != nil {
				return "", err
			}
			return "held", r.AskAll(askSure)
		},
	}
}

// faultyRelay has a client that cannot ask call a tool while the ledger fails at its nth call, and reports whether it came to that.
func faultyRelay(t *testing.T, replicas, n int, how fault, session bool) (failed bool) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultyRig(t, replicas, how)
		id := 0
		call := func(args object) rpcMessage {
			id++
			there := f.rigs[id%replicas]
			resp, err := f.http.Do(there.httpRequest(t.Context(), callTool("ahead", args)))
			require.NoError(t, err)
			m := parseMessage(t, readAll(t, resp))
			f.log = append(f.log, fmt.Sprint(time.Now().Format("05.000"), args, m.raw))
			return m
		}
		if session {
			c := f.rigs[0].connect("2025-11-25", "{}", func(c *legacyClient) { c.http = f.http })
			call = func(args object) rpcMessage {
				id++
				raw, err := json.Marshal(args)
				require.NoError(t, err)
				resp := c.at(f.rigs[id%replicas]).post(toolCall(id, "ahead", string(raw)))
				said := ""
				if resp.Header.Get("Content-Type") == "text/event-stream" {
					said = c.read(resp).wait("").data
				} else {
					said = readAll(t, resp)
				}
				f.log = append(f.log, fmt.Sprint(time.Now().Format("05.000"), args, said))
				return parseMessage(t, said)
			}
		}
		defer func() {
			if t.Failed() {
				t.Logf("call %d of the ledger:\n%s", n, strings.Join(f.log, "\n"))
			}
		}()
		synctest.Wait()
		f.store.arm(n)
		args := object{}
		for tries := 0; ; tries++ {
			require.Less(t, tries, 1000)
			got := call(args)
			if got.code() == -31503 {
				time.Sleep(time.Second)
				continue
			}
			require.Nil(t, got.Error, got.raw)
			said := saidBy(t, got.Result)
			if said.StructuredContent.ResumeToken == "" {
				assert.Equal(t, "held", said.Content[len(said.Content)-1].Text) // an answer that was taken may be refused again
				break
			}
			args = object{"resumeToken": said.StructuredContent.ResumeToken}
			if said.StructuredContent.Status == "waiting" {
				args["answers"] = object{"sure": object{"sure": true}}
			}
		}
		f.store.mu.Lock()
		failed = f.store.failed
		f.store.mu.Unlock()
		time.Sleep(40 * time.Minute)
		assert.Equal(t, 1, f.desk.now(), "nothing is held twice")
	})
	return failed
}

// Wherever in a call that is asked elsewhere the ledger fails, and however, its model gets the end, if need be by sending again what
// it is told to send again, and nothing is done twice.
func TestLedgerFailsAtEachPointOfARelay(t *testing.T) {
	for name, how := range faults {
		for _, replicas := range []int{1, 3} {
			for _, session := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%t", name, replicas, session), func(t *testing.T) {
					t.Parallel()
					first, every := faultyCalls()
					for n := first; faultyRelay(t, replicas, n, how, session); n += every {
						require.Less(t, n, 500)
					}
				})
			}
		}
	}
}
