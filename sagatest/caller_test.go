package sagatest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// refund asks before it pays back, and only clerks may have it pay much.
func refund() saga.Definition {
	type order struct {
		Euros int `json:"euros"`
	}
	type agreed struct {
		Sure bool `json:"sure"`
	}
	ask := &steps.Form[agreed]{ID: "sure", Message: "Pay it back?"}
	pay := &saga.Effect[int, string]{Name: "pay", Do: func(ctx context.Context, _ saga.Key, euros int) (string, error) {
		return fmt.Sprintf("%d euros paid for %s", euros, saga.CallerOf(ctx).Subject), nil
	}, Undo: func(context.Context, saga.Performed[int, string]) error { return nil }}
	return saga.Flow[order, string]{
		Info: saga.Info{Name: "refund", Asks: []steps.Question{ask}, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, in order) (string, error) {
			if _, err := saga.Ask(r, ask); err != nil {
				return "", err
			}
			if in.Euros > 100 && !r.Caller().HasScope("refunds:large") {
				return "", saga.Failf("You may pay back 100 euros.")
			}
			return saga.Do(r, pay, in.Euros)
		},
	}
}

// A play can be that of any caller, who is known in every turn, in effects, and to workers of a ledger.
func TestPlaysHaveCallers(t *testing.T) {
	clerk := saga.Caller{Subject: "ann", Scopes: []string{"refunds:large"}}
	yes := sagatest.Accept("sure", map[string]any{"sure": true})
	for text, who := range map[string]saga.Caller{"You may pay back 100 euros.": {}, "200 euros paid for ann": clerk} {
		played := sagatest.Player{Caller: who}.Play(t, refund(), map[string]any{"euros": 200}, yes)
		assert.Equal(t, text, played.Result.Content.Text())
	}
	sagatest.Sweep(t, sagatest.Case{Tool: refund(), Args: map[string]any{"euros": 200}, Script: []sagatest.Answer{yes}, Caller: clerk})
}
