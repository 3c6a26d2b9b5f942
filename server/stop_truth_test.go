package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// deafTools work for three seconds without heeding their context, after they have held a room. later counts the rooms that
// they hold after that.
func deafTools(held, later *atomic.Int32) map[string]saga.Definition {
	room := countedTool(held).(saga.Flow[struct{}, string]).Effects[0].(*saga.Effect[string, bool])
	more := countedTool(later).(saga.Flow[struct{}, string]).Effects[0].(*saga.Effect[string, bool])
	more.Name = "more"
	work := func() { time.Sleep(3 * time.Second) } //sagavet:ignore it is work, in virtual time
	slow := &saga.Effect[string, bool]{Name: "slow", Do: func(context.Context, saga.Key, string) (bool, error) { work(); held.Add(1); return true, nil },
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error { held.Add(-1); return nil }}
	pay := &saga.Effect[string, bool]{Name: "pay", Irreversible: true, Do: func(context.Context, saga.Key, string) (bool, error) { return true, nil }}
	info := saga.Info{Name: "room", Asks: []steps.Question{askSure}, Effects: []saga.Declared{room, more, slow, pay}}
	flow := func(then func(*saga.Run) error) saga.Definition {
		return saga.Flow[struct{}, string]{Info: info, Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, room, "7"); err != nil {
				return "", err
			}
			return "the end", then(r)
		}}
	}
	type state struct{ N int }
	machine := func(next func(*saga.Turn[struct{}, state]) (saga.Next, error)) saga.Definition {
		return saga.Machine[struct{}, state]{Info: info,
			Start: func(t *saga.Turn[struct{}, state]) (saga.Next, error) {
				if _, err := saga.Do(t, room, "7"); err != nil {
					return nil, err
				}
				return next(t)
			},
			Steps: saga.Steps[struct{}, state]{"again": func(t *saga.Turn[struct{}, state]) (saga.Next, error) {
				if t.State.N++; t.State.N > 30 {
					return t.Textf("the end")
				}
				time.Sleep(100 * time.Millisecond) //sagavet:ignore it is work, in virtual time
				return next(t)
			}}}
	}
	return map[string]saga.Definition{
		"work":      flow(func(*saga.Run) error { work(); return nil }),
		"an effect": flow(func(r *saga.Run) error { _, err := saga.Do(r, slow, "7"); return err }),
		"effects":   flow(func(r *saga.Run) error { work(); _, err := saga.Do(r, more, "7"); return err }),
		"swallowed": flow(func(r *saga.Run) error { work(); _, _ = saga.Do(r, more, "7"); return nil }),
		"a goto":    machine(func(t *saga.Turn[struct{}, state]) (saga.Next, error) { return t.Goto("again") }),
		"a pause":   machine(func(t *saga.Turn[struct{}, state]) (saga.Next, error) { return t.Pause("again") }),
		"something final": flow(func(r *saga.Run) error {
			if _, err := saga.Do(r, pay, "7"); err != nil {
				return err
			}
			work()
			_, err := saga.Ask(r, askSure)
			return err
		}),
		"longer work": flow(func(*saga.Run) error { work(); work(); work(); return nil }),
	}
}

// eachDeaf has each client call each tool, with a ledger and without, and tests half a second later.
func eachDeaf(t *testing.T, test func(t *testing.T, p *stdioProcess, who, what string, held, later *atomic.Int32)) {
	for who, client := range asStdio {
		for what := range deafTools(nil, nil) {
			for _, kept := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, ledger %t", who, what, kept), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var held, later atomic.Int32
						o := server.Options{Tools: []saga.Definition{deafTools(&held, &later)[what]}}
						if kept {
							memory := ledger.NewMemory(ledger.MemoryOptions{})
							defer memory.Close()
							o.Ledger = memory
						}
						p := newStdioProcess(t, o)
						defer p.in.Close()
						for _, line := range client.say {
							p.send(line)
						}
						time.Sleep(430 * time.Millisecond)
						test(t, p, who, what, &held, &later)
					})
				})
			}
		}
	}
}

// Who reads that it is to call again has nothing that stays.
func TestWhoIsToCallAgainHasNothingThatStays(t *testing.T) {
	eachDeaf(t, func(t *testing.T, p *stdioProcess, who, what string, held, later *atomic.Int32) {
		p.stop()
		p.ends()
		last := p.last()
		stays := held.Load() + later.Load()
		switch {
		case last.Error == nil && strings.Contains(last.raw, "the end"), strings.Contains(last.raw, `oken"`), strings.Contains(last.raw, `requestState"`):
			assert.Positive(t, stays)
		case what == "longer work":
			assert.NotContains(t, last.raw, dialect.ErrStopping.Error())
			time.Sleep(10 * time.Second) // it would die with its process
		case what == "something final":
			assert.Positive(t, stays)
			assert.NotContains(t, last.raw, dialect.ErrStopping.Error())
			time.Sleep(10 * time.Second)
		default:
			assert.Zero(t, stays, last.raw)
		}
		assert.NotContains(t, p.log.String(), "level=ERROR")
	})
}

// Once a client has cancelled its call no effect is begun, and what was done is undone.
func TestNothingIsBegunOnceACallIsCancelled(t *testing.T) {
	eachDeaf(t, func(t *testing.T, p *stdioProcess, who, what string, held, later *atomic.Int32) {
		if strings.Contains(p.last().raw, `"id":1,"result"`) { // the call has ended, with a token
			require.Equal(t, "a pause", what)
			require.NotContains(t, []string{"a session", "an older session"}, who)
			return
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(500 * time.Millisecond)
		began := later.Load()
		time.Sleep(10 * time.Second)
		assert.Equal(t, what == "something final", held.Load() == 1, "which is too late to cancel")
		assert.Zero(t, began)
		assert.Zero(t, later.Load())
		p.in.Close()
		p.ends()
		assert.NotContains(t, p.log.String(), "level=ERROR")
	})
}

// Over HTTP a session or its client's word ends calls as well, and so does who hangs up without a session.
func TestNothingIsBegunOnceACallHasNoClient(t *testing.T) {
	ends := map[string]func(b *bubble, hangUp func()){
		"a notification": func(b *bubble, _ func()) {
			b.do("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		},
		"the end of a session": func(b *bubble, _ func()) { b.do("DELETE", "") },
		"2026-07-28":           func(_ *bubble, hangUp func()) { hangUp() },
	}
	for how, end := range ends {
		for what := range deafTools(nil, nil) {
			for _, kept := range []bool{true, false} {
				if how == "2026-07-28" && what == "a pause" {
					continue // its call has ended, with a token
				}
				t.Run(fmt.Sprintf("%s, %s, ledger %t", how, what, kept), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var held, later atomic.Int32
						o := server.Options{Tools: []saga.Definition{deafTools(&held, &later)[what]}}
						if kept {
							memory := ledger.NewMemory(ledger.MemoryOptions{})
							defer memory.Close()
							o.Ledger = memory
						}
						b := newBubble(t, o)
						ctx, hangUp := context.WithCancel(t.Context())
						defer hangUp()
						var calls sync.WaitGroup
						calls.Go(func() {
							q := callTool("room", object{}).with(allCapabilities)
							body, header := q.body(), q.header.Clone()
							if how != "2026-07-28" {
								body, header = toolCall(1, "room", `{}`), http.Header{"Mcp-Session-Id": {b.session}}
							}
							header.Set("Content-Type", "application/json")
							header.Set("Accept", "application/json, text/event-stream")
							r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/mcp", strings.NewReader(body))
							r.Header = header
							b.handler.ServeHTTP(httptest.NewRecorder(), r)
						})
						time.Sleep(530 * time.Millisecond)
						require.EqualValues(t, 1, held.Load())
						end(b, hangUp)
						time.Sleep(500 * time.Millisecond)
						began := later.Load()
						time.Sleep(10 * time.Second)
						assert.Equal(t, what == "something final", held.Load() == 1)
						assert.Zero(t, began+later.Load())
						calls.Wait()
					})
				})
			}
		}
	}
}

// What another replica has cancelled before it has ended is undone, however soon it ends.
func TestACallThatEndsJustAfterItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Int32
		memory := ledger.NewMemory(ledger.MemoryOptions{})
		defer memory.Close()
		o := server.Options{Ledger: memory, Keys: newKeys(t), Tools: []saga.Definition{waitingTool(&held, false, func(*saga.Run) error {
			time.Sleep(30 * time.Millisecond) //sagavet:ignore it is work, in virtual time
			return nil
		})}}
		here, there := newBubble(t, o), newBubble(t, o)
		there.session = here.session
		time.AfterFunc(10*time.Millisecond, func() { there.do("DELETE", "") })
		r := httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(toolCall(1, "room", `{}`)))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {here.session}}
		here.handler.ServeHTTP(httptest.NewRecorder(), r)
		time.Sleep(time.Second)
		assert.Zero(t, held.Load())
	})
}
