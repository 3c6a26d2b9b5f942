package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A wizard asks page by page. Its last page shows what was entered, and leads back to any other.
func Example_wizard() {
	type none struct{}
	type state struct{ Name, Size string }
	type turn = saga.Turn[none, state]
	type nameForm struct{ Name string }
	type sizeForm struct {
		Size string `enum:"small|large"`
	}
	type lastForm struct {
		Next string `enum:"create=Create it|Name=Change the name|Size=Change the size"`
	}
	askName := &steps.Form[nameForm]{ID: "name", Message: "What is the database called?"}
	askSize := &steps.Form[sizeForm]{ID: "size", Message: "How large is it?"}
	askLast := &steps.Form[lastForm]{ID: "last", Message: "Shall I create it?"}

	last := func(t *turn) (saga.Next, error) {
		return t.Ask("last", askLast.With(steps.Message(fmt.Sprintf("Shall I create %s, which is %s?", t.State.Name, t.State.Size))))
	}
	create := saga.Machine[none, state]{
		Info:  saga.Info{Name: "create_database", Asks: []steps.Question{askName, askSize, askLast}},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("name", askName) },
		Steps: saga.Steps[none, state]{
			"name": func(t *turn) (saga.Next, error) {
				form, err := askName.Answer(t)
				if t.State.Name = form.Name; err != nil {
					return nil, err
				}
				if t.State.Size == "" {
					return t.Ask("size", askSize)
				}
				return last(t) // the user came back from there
			},
			"size": func(t *turn) (saga.Next, error) {
				form, err := askSize.Answer(t)
				if t.State.Size = form.Size; err != nil {
					return nil, err
				}
				return last(t)
			},
			"last": func(t *turn) (saga.Next, error) {
				form, err := askLast.Answer(t)
				switch form.Next {
				case "Name":
					return t.Ask("name", askName.With(steps.Default("Name", t.State.Name)))
				case "Size":
					return t.Ask("size", askSize.With(steps.Default("Size", t.State.Size)))
				case "create":
					return t.Textf("Created %s.", t.State.Name)
				}
				return nil, err
			},
		},
	}
	page := func(field, value string) any { return client.Accept(fields{field: value}) }
	talk(create, nil, page("Name", "books"), page("Size", "large"), page("Next", "Name"), page("Name", "films"), page("Next", "create"))
	// Output:
	// name asks: What is the database called?
	// size asks: How large is it?
	// last asks: Shall I create books, which is large?
	// name~2 asks: What is the database called?
	// last~2 asks: Shall I create films, which is large?
	// result: Created films.
}
