package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A result for programs: Structured gives it as JSON, and the engine checks it
// against the output schema that the tool declares.
func ExampleTurn_Structured() {
	type none struct{}
	type turn = saga.Turn[none, none]
	type sizeForm struct {
		Size string `json:"size" enum:"small|large"`
	}
	type quote struct {
		Size  string  `json:"size"`
		Price float64 `json:"price" jsonschema:"in euros, with tax"`
	}
	askSize := &steps.Form[sizeForm]{ID: "size", Message: "Which size?"}

	schema, err := saga.SchemaFor[quote]()
	if err != nil {
		fmt.Println(err)
		return
	}
	price := saga.Machine[none, none]{
		Info:         saga.Info{Name: "quote", Asks: []steps.Question{askSize}},
		OutputSchema: schema,
		Start:        func(t *turn) (saga.Next, error) { return t.Ask("sized", askSize) },
		Steps: saga.Steps[none, none]{
			"sized": func(t *turn) (saga.Next, error) {
				form, err := askSize.Answer(t)
				if err != nil {
					return nil, err
				}
				prices := map[string]float64{"small": 4.5, "large": 6}
				return t.Structured(quote{form.Size, prices[form.Size]})
			},
		},
	}
	talk(price, nil, client.Accept(fields{"size": "small"}))
	// Output:
	// size asks: Which size?
	// structured result: {"size":"small","price":4.5}
}
