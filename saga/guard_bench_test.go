package saga_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// BenchmarkEffects is a last turn: that of a machine, which performs an effect, and that of a flow,
// which comes to a time, a question and an effect again, and performs another one.
func BenchmarkEffects(b *testing.B) {
	e := &saga.Effect[string, string]{Name: "e", Do: func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil }}
	for name, d := range map[string]saga.Definition{
		"machine": saga.Machine[empty, empty]{
			Info:  saga.Info{Name: "m", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{e}},
			Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Ask("act", askConfirm) },
			Steps: saga.Steps[empty, empty]{"act": func(t *saga.Turn[empty, empty]) (saga.Next, error) {
				out, err := saga.Do(t, e, "in")
				if err != nil {
					return nil, err
				}
				return t.Textf("%s", out)
			}},
		},
		"flow": saga.Flow[empty, string]{
			Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{e}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				_ = r.Now()
				if _, err := saga.Do(r, e, "first"); err != nil {
					return "", err
				}
				if _, err := saga.Ask(r, askConfirm); err != nil {
					return "", err
				}
				return saga.Do(r, e, "last")
			},
		},
	} {
		b.Run(name, func(b *testing.B) {
			p, err := d.Compile()
			if err != nil {
				b.Fatal(err)
			}
			out, err := p.Start(b.Context(), engine.Call{Client: steps.AllFeatures()})
			if err != nil {
				b.Fatal(err)
			}
			answer := steps.Answer{StepID: out.Steps[0].ID, Result: json.RawMessage(`{"action":"accept","content":{"sure":true}}`)}
			b.ReportAllocs()
			for b.Loop() {
				end, err := p.Resume(b.Context(), out.Position, engine.Call{Client: steps.AllFeatures(), Answers: []steps.Answer{answer}})
				if err != nil || end.Result == nil || end.Result.IsError {
					b.Fatal(err, end)
				}
			}
		})
	}
}
