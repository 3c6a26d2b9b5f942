package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A saga whose MaxAge passes while a turn works ends as one that has come back too late, and what it did is
// undone.
func TestMaxAgePassesDuringATurn(t *testing.T) {
	const late = "too late"
	ways := map[string]func(t *testing.T, r *rig) (said []string){
		"the saga proposal": func(t *testing.T, r *rig) (said []string) {
			token := tokenOf(t, r.post(methodCall(1, "tools/callSaga", `{"name":"slow"}`)))
			for range 2 {
				said = append(said, r.post(methodCall(2, "tools/resumeSaga", `{"sagaToken":"`+token+`","completedSteps":[{"stepId":"sure","result":{"action":"accept","content":{"sure":true}}}]}`)))
			}
			return said
		},
		"MCP 2026-07-28": func(_ *testing.T, r *rig) (said []string) {
			call := callTool("slow", object{}).with(allCapabilities)
			state := r.state(call)
			for range 2 {
				said = append(said, r.send(callTool("slow", object{}).with(allCapabilities).answering(state, object{"sure": formed(object{"sure": true})})).raw)
			}
			return said
		},
	}
	for name, second := range ways {
		for what, store := range map[string]func() ledger.Store{
			"without a ledger": func() ledger.Store { return nil },
			"with a ledger":    func() ledger.Store { return ledger.NewMemory(ledger.MemoryOptions{}) },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					held := map[saga.Key]bool{}
					room := holds("room", held)
					o := server.Options{TurnTimeout: time.Hour, Tools: []saga.Definition{saga.Flow[struct{}, string]{
						Info: saga.Info{Name: "slow", Asks: []steps.Question{askSure, askNick}, Effects: []saga.Declared{room}, MaxAge: 10 * time.Minute},
						Run: func(r *saga.Run, _ struct{}) (string, error) {
							if _, err := saga.Ask(r, askSure); err != nil {
								return "", err
							}
							if _, err := saga.Do(r, room, "7"); err != nil {
								return "", err
							}
							time.Sleep(30 * time.Minute) //sagavet:ignore the turn is to last longer than the saga may
							_, err := saga.Ask(r, askNick)
							return "done", err
						},
					}}}
					if o.Ledger = store(); o.Ledger != nil {
						t.Cleanup(func() { _ = o.Ledger.Close() })
					}
					r := newRig(t, o)
					said := second(t, r)
					assert.Contains(t, said[0], late)
					assert.Contains(t, said[0], "Undone: room")
					assert.Contains(t, said[0], `"isError":true`)
					assert.Empty(t, held)
					if o.Ledger != nil {
						assert.Equal(t, said[0], said[1], "the same request, the same response")
					}
					assert.NotContains(t, r.log.take(), "turn failed")
				})
			})
		}
	}
}
