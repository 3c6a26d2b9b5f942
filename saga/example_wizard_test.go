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
	type nameForm struct {
		Name string `json:"name"`
	}
	type sizeForm struct {
		Size string `json:"size" enum:"small|large"`
	}
	type lastForm struct {
		Next string `json:"next" enum:"create=Create it|name=Change the name|size=Change the size"`
	}
	askName := &steps.Form[nameForm]{ID: "name", Message: "What is the database called?"}
	askSize := &steps.Form[sizeForm]{ID: "size", Message: "How large is it?"}
	askLast := &steps.Form[lastForm]{ID: "last", Message: "Shall I create it?"}

	create := saga.Flow[none, string]{
		Info: saga.Info{Name: "create_database", Asks: []steps.Question{askName, askSize, askLast}},
		Run: func(r *saga.Run, _ none) (string, error) {
			name, size, last := nameForm{"books"}, sizeForm{"small"}, lastForm{} // what the pages show at first
			for range 5 {
				var err error
				if last.Next != "size" {
					if name, err = saga.Ask(r, askName.With(steps.Default("name", name.Name))); err != nil {
						return "", err
					}
				}
				if last.Next != "name" {
					if size, err = saga.Ask(r, askSize.With(steps.Default("size", size.Size))); err != nil {
						return "", err
					}
				}
				text := fmt.Sprintf("Shall I create the database %s, which is %s?", name.Name, size.Size)
				if last, err = saga.Ask(r, askLast.With(steps.Message(text))); err != nil {
					return "", err
				}
				if last.Next == "create" {
					return "Created " + name.Name + ".", nil
				}
			}
			return "", saga.Failf("Too many changes. Please begin again.")
		},
	}
	page := func(field, value string) any { return client.Accept(fields{field: value}) }
	talk(create, nil, page("name", "plays"), page("size", "large"), page("next", "name"), page("name", "films"), page("next", "create"))
	// Output:
	// name asks: What is the database called?
	// size asks: How large is it?
	// last asks: Shall I create the database plays, which is large?
	// name~2 asks: What is the database called?
	// last~2 asks: Shall I create the database films, which is large?
	// result: Created films.
}
