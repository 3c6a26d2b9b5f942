package saga_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a tool keeps where all of its calls find it, another call may find while the first is
// under way: it then would act in a saga of another user's.
func TestTurnOfAnotherCall(t *testing.T) {
	var performed sync.Map
	act := &saga.Effect[string, string]{Name: "act", Do: func(_ context.Context, _ saga.Key, in string) (string, error) {
		performed.Store(in, true)
		return in, nil
	}}
	type args struct {
		Shares bool `json:"shares"`
	}
	turns, runs, done := make(chan *saga.Turn[args, empty]), make(chan *saga.Run), make(chan bool)
	for name, d := range map[string]saga.Definition{
		"machine": saga.Machine[args, empty]{
			Info: saga.Info{Name: "machine", Effects: []saga.Declared{act}},
			Start: func(t *saga.Turn[args, empty]) (saga.Next, error) {
				if t.Args.Shares {
					turns <- t
					<-done
					return t.Textf("done")
				}
				other := <-turns
				_, misused := saga.Do(other, act, "machine: another's")
				done <- true
				if _, err := saga.Do(t, act, "machine: its own"); err != nil {
					return nil, err
				}
				return t.Textf("%v", misused)
			},
		},
		"flow": saga.Flow[args, string]{
			Info: saga.Info{Name: "flow", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{act}},
			Run: func(r *saga.Run, in args) (string, error) {
				if in.Shares {
					runs <- r
					<-done
					return "done", nil
				}
				other := <-runs
				_, misused := saga.Do(other, act, "flow: another's")
				_, asked := saga.Ask(other, askConfirm)
				assert.ErrorContains(t, asked, "by the code of another turn")
				done <- true
				if _, err := saga.Do(r, act, "flow: its own"); err != nil {
					return "", err
				}
				return misused.Error(), nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := d.Compile()
			require.NoError(t, err)
			var shares *engine.Outcome
			var failed error
			var both sync.WaitGroup
			both.Go(func() {
				shares, failed = p.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Arguments: []byte(`{"shares":true}`)})
			})
			out, err := p.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Arguments: []byte(`{"shares":false}`)})
			both.Wait()
			require.NoError(t, err)
			require.NotNil(t, out.Result)
			assert.Contains(t, text(t, out), "by the code of another turn")
			_, acted := performed.Load(name + ": its own")
			assert.True(t, acted)
			_, acted = performed.Load(name + ": another's")
			assert.False(t, acted)
			// The one whose Turn was used fails, whatever its code made of it.
			require.NoError(t, failed)
			assert.ErrorContains(t, shares.Err, `saga.Do of the effect "act" was called by the code of another turn`)
		})
	}
}
