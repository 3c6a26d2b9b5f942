package server_test

import (
	"context"
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

// deaf is a tool that ignores its context: it acts, and then works for an hour, in a step function or
// in an effect. After that it tries to go on.
type deaf struct {
	mu     sync.Mutex
	did    []string
	late   []error
	undone []bool // whether what was undone was known
}

func (d *deaf) note(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *deaf) tool(name string, mode saga.TaskMode, inEffect bool) saga.Definition {
	effect := func(name string, work time.Duration) *saga.Effect[struct{}, struct{}] {
		return &saga.Effect[struct{}, struct{}]{
			Name: name,
			Do: func(context.Context, saga.Key, struct{}) (none struct{}, err error) {
				d.note(func() { d.did = append(d.did, name) })
				time.Sleep(work)
				return none, nil
			},
			Undo: func(_ context.Context, p saga.Performed[struct{}, struct{}]) error {
				d.note(func() { d.undone = append(d.undone, p.Known) })
				return nil
			},
		}
	}
	first, long, last := effect("first", 0), effect("long", time.Hour), effect("last", 0)
	return saga.Machine[struct{}, struct{}]{
		Info: saga.Info{Name: name, Effects: []saga.Declared{first, long, last}, Asks: []steps.Question{askSure}, Tasks: saga.Tasks{Mode: mode}},
		Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) {
			if _, err := saga.Do(t, first, struct{}{}); err != nil {
				return nil, err
			}
			var errs []error
			if inEffect {
				_, err := saga.Do(t, long, struct{}{})
				errs = append(errs, err)
			} else {
				time.Sleep(time.Hour)
			}
			t.Progress(1, 2, "nobody hears it")
			_, err := saga.Do(t, last, struct{}{})
			_, asking := t.Ask("end", askSure)
			d.note(func() { d.late = append(errs, err, asking) })
			return t.Textf("done")
		},
		Steps: saga.Steps[struct{}, struct{}]{"end": func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Textf("done") }},
	}
}

// A tool that ignores its context takes no longer than its limit all the same, however it is called. What
// it did is undone, that which it was at as if the server had died, and it can do nothing more.
func TestToolsThatIgnoreTheirContextAreGivenUp(t *testing.T) {
	const limit = 3 * time.Second
	for name, c := range map[string]struct {
		ledger bool
		mode   saga.TaskMode
		call   func(r *rig) string
	}{
		"the proposal": {call: func(r *rig) string {
			return r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"deaf"}}`)
		}},
		"the proposal, with a ledger": {ledger: true, call: func(r *rig) string {
			return r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"deaf"}}`)
		}},
		"2026-07-28": {call: func(r *rig) string { return r.send(callTool("deaf", nil)).raw }},
		"a session": {call: func(r *rig) string {
			return r.connect("2025-06-18", everything).ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deaf"}}`)
		}},
		"a session, with a ledger": {ledger: true, call: func(r *rig) string {
			return r.connect("2025-06-18", everything).ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deaf"}}`)
		}},
		"a session, of a tool that may be a task": {ledger: true, mode: saga.TasksOptional, call: func(r *rig) string {
			return r.connect("2025-11-25", everything).ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deaf"}}`)
		}},
		"a task": {ledger: true, mode: saga.TasksRequired, call: func(r *rig) string {
			return r.until(r.begin(callTool("deaf", nil)).TaskID, "failed").Error.Message
		}},
	} {
		for what, inEffect := range map[string]bool{"step": false, "effect": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					var d deaf
					o := server.Options{TurnTimeout: limit, Tools: []saga.Definition{d.tool("deaf", c.mode, inEffect)}}
					if c.ledger {
						store := ledger.NewMemory(ledger.MemoryOptions{})
						t.Cleanup(func() { _ = store.Close() })
						o.Ledger = store
					}
					r := newRig(t, o)
					began := time.Now()
					assert.Contains(t, c.call(r), "took too long")
					assert.LessOrEqual(t, time.Since(began), limit+2*time.Second)
					want := []bool{true}
					if inEffect {
						want = []bool{false, true}
					}
					d.note(func() { assert.Equal(t, want, d.undone, "whether what is undone was known") })
					log := r.log.take()
					assert.Contains(t, log, `"msg":"code of a tool ignores its context, and was given up","tool":"deaf","code":"step function \"start\"`)
					assert.Equal(t, inEffect, strings.Contains(log, `effect \"long\"`))
					_, state := ready(t, r.srv.Handler(), "localhost", "")
					assert.Contains(t, state, `"status":"degraded"`)
					assert.Contains(t, state, `"hanging":["deaf"]`)
					_, state = ready(t, r.srv.Handler(), "evil.example", "")
					assert.NotContains(t, state, "deaf", "a stranger asks")

					time.Sleep(time.Hour)
					d.note(func() {
						require.Len(t, d.late, 2+len(want)-1)
						for _, err := range d.late {
							assert.ErrorContains(t, err, "the turn is over")
						}
						assert.NotContains(t, d.did, "last")
						assert.Equal(t, want, d.undone)
					})
					assert.Contains(t, r.log.take(), "which counts for nothing")
					_, state = ready(t, r.srv.Handler(), "localhost", "")
					assert.Contains(t, state, `"status":"ready"`)
				})
			})
		}
	}
}

// An Undo that ignores its context is outstanding when its time is over.
func TestUndosThatIgnoreTheirContextAreGivenUp(t *testing.T) {
	for name, mode := range map[string]saga.TaskMode{"the proposal": saga.TasksForbidden, "a task": saga.TasksRequired} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				e := &saga.Effect[struct{}, struct{}]{
					Name: "e", Timeout: 10 * time.Second,
					Do:   func(context.Context, saga.Key, struct{}) (none struct{}, err error) { return none, nil },
					Undo: func(context.Context, saga.Performed[struct{}, struct{}]) error { time.Sleep(time.Hour); return nil },
				}
				o := server.Options{Tools: []saga.Definition{saga.Flow[struct{}, string]{
					Info: saga.Info{Name: "fails", Effects: []saga.Declared{e}, Tasks: saga.Tasks{Mode: mode}},
					Run: func(r *saga.Run, _ struct{}) (string, error) {
						if _, err := saga.Do(r, e, struct{}{}); err != nil {
							return "", err
						}
						return "", saga.Failf("it went wrong")
					},
				}}}
				if mode == saga.TasksRequired {
					store := ledger.NewMemory(ledger.MemoryOptions{})
					t.Cleanup(func() { _ = store.Close() })
					o.Ledger = store
				}
				r := newRig(t, o)
				began := time.Now()
				var got string
				if mode == saga.TasksRequired {
					got = string(r.until(r.begin(callTool("fails", nil)).TaskID, "completed").members["result"])
				} else {
					got = r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"fails"}}`)
				}
				assert.Contains(t, got, "Not undone: e.")
				assert.LessOrEqual(t, time.Since(began), 15*time.Second)
				assert.Contains(t, r.log.take(), `"code":"Undo of effect \"e\""`)
				r.srv.Close()
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// A tool of which many calls hang is not called any more, until they have returned. Others are.
func TestAToolThatHangsTooOftenIsNotCalled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var d deaf
		r := newRig(t, server.Options{TurnTimeout: 2 * time.Second, Tools: []saga.Definition{
			d.tool("deaf", saga.TasksForbidden, false),
			saga.Flow[struct{}, string]{Info: saga.Info{Name: "fine"}, Run: func(*saga.Run, struct{}) (string, error) { return "fine", nil }},
		}})
		for range 16 {
			assert.Contains(t, r.send(callTool("deaf", nil)).raw, "took too long")
		}
		began := time.Now()
		refused := r.send(callTool("deaf", nil))
		assert.Equal(t, 503, refused.status)
		assert.Equal(t, -31503, refused.code())
		assert.Zero(t, time.Since(began))
		assert.Contains(t, r.send(callTool("fine", nil)).raw, "fine")
		time.Sleep(2 * time.Hour)
		assert.Contains(t, r.send(callTool("deaf", nil)).raw, "took too long", "it is called again")
		time.Sleep(2 * time.Hour)
	})
}
