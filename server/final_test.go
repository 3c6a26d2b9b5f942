package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// final is a tool that pays, which is irreversible. slow has it take longer than a turn may after that, and lost
// has the answer of the bank be lost.
func final(slow, lost bool) saga.Definition {
	pay := &saga.Effect[string, string]{Name: "pay", Irreversible: true, Tries: 1, Do: func(context.Context, saga.Key, string) (string, error) {
		if lost {
			return "", errors.New("no answer")
		}
		return "paid", nil
	}}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Effects: []saga.Declared{pay}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			paid, err := saga.Do(r, pay, "it")
			if err == nil && slow {
				<-r.Done()
				return "", r.Err()
			}
			return paid, err
		},
	}
}

// A request that would be another saga is not asked for again once something may be final: who obeyed would pay
// twice.
func TestWhatIsFinalIsNotAskedForAgain(t *testing.T) {
	ways := map[string]func(r *rig) string{
		"the saga proposal": func(r *rig) string {
			_, body := r.do(http.MethodPost, "/mcp", methodCall(1, "tools/callSaga", `{"name":"pay"}`), func(q *http.Request) { q.Header.Set("User", "ann") })
			return body
		},
		"MCP 2026-07-28": func(r *rig) string {
			q := callTool("pay", nil)
			q.header.Set("User", "ann")
			return r.send(q).raw
		},
		"a session": func(r *rig) string {
			return r.user("ann", "2025-11-25").ask(methodCall(1, "tools/call", `{"name":"pay","arguments":{}}`))
		},
	}
	for name, ask := range ways {
		for _, remembers := range []bool{false, true} {
			for _, slow := range []bool{false, true} {
				if name == "a session" && remembers && !slow {
					continue // it waits until the outcome is known
				}
				t.Run(fmt.Sprintf("%s, ledger %t, slow %t", name, remembers, slow), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						r := newTaskRig(t, func(o *server.Options) {
							o.Tools, o.TurnTimeout = []saga.Definition{final(slow, !slow)}, time.Minute
							if !remembers {
								o.Ledger = nil
							}
						})
						body := ask(r)
						assert.NotContains(t, body, "the same request")
						assert.NotContains(t, body, "retryable")
						assert.Contains(t, body, `\"pay\"`)
						assert.Contains(t, body, "final")
						if m := parse(t, body); m.Error != nil {
							assert.Equal(t, -32603, m.Error.Code)
						} else {
							assert.Contains(t, body, `"isError":true`)
						}
					})
				})
			}
		}
	}
}

// A task that takes too long after something final says so.
func TestATaskThatIsTooSlowSaysWhatIsFinal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newTaskRig(t, func(o *server.Options) {
			o.Tools, o.TurnTimeout = []saga.Definition{final(true, false)}, time.Minute
		})
		task := r.begin(callTool("pay", nil))
		time.Sleep(2 * time.Minute)
		got := r.task(task.TaskID)
		assert.Equal(t, "failed", got.Status)
		assert.Equal(t, `The tool took too long. Nothing was undone, as "pay" is final.`, got.StatusMessage)
	})
}
