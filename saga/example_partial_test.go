package saga_test

import (
	"context"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Start and Resume run single turns without a server: a tool's own tests need no
// more. Here a client answers one of two questions first, and is asked for the
// other.
func Example_partialAnswers() {
	type none struct{}
	type turn = saga.Turn[none, none]
	type fromForm struct {
		From string `json:"from"`
	}
	type toForm struct {
		To string `json:"to"`
	}
	askFrom := &steps.Form[fromForm]{ID: "from", Message: "From where?"}
	askTo := &steps.Form[toForm]{ID: "to", Message: "Where to?"}

	tool, err := saga.Machine[none, none]{
		Info: saga.Info{
			Name: "route",
			Asks: []steps.Question{askFrom, askTo},
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("asked", askFrom, askTo) },
		Steps: saga.Steps[none, none]{
			"asked": func(t *turn) (saga.Next, error) {
				from, err := askFrom.Answer(t)
				if err != nil {
					return nil, err
				}
				to, err := askTo.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Textf("From %s to %s.", from.From, to.To)
			},
		},
	}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	out, err := show(tool.Start(ctx, engine.Call{Client: steps.AllFeatures()}))
	if err != nil {
		return
	}
	to := steps.Answer{StepID: "to", Result: []byte(`{"action":"accept","content":{"to":"Rome"}}`)}
	out, err = show(tool.Resume(ctx, out.Position, engine.Resumption{Client: steps.AllFeatures(), Answers: []steps.Answer{to}}))
	if err != nil {
		return
	}
	from := steps.Answer{StepID: "from", Result: []byte(`{"action":"accept","content":{"from":"Oslo"}}`)}
	show(tool.Resume(ctx, out.Position, engine.Resumption{Client: steps.AllFeatures(), Answers: []steps.Answer{from}}))
	// Output:
	// asked: from
	// asked: to
	// asked: from
	// caller: From Oslo to Rome.
}

// show prints how a turn ended, and returns it.
func show(out *engine.Outcome, err error) (*engine.Outcome, error) {
	if err != nil {
		fmt.Println("failed:", err)
		return nil, err
	}
	for _, s := range out.Steps {
		fmt.Println("asked:", s.ID)
	}
	if out.Result != nil {
		fmt.Println("caller:", out.Result.Content.Text())
	}
	if out.Err != nil {
		fmt.Println("log:", out.Err)
	}
	return out, nil
}
