package saga_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Each search costs money. The user sets a limit before the first one, and is asked again before it would be exceeded.
func Example_costLimit() {
	type sources struct {
		Sources []string `json:"sources" maxItems:"20"`
	}
	type budgetForm struct {
		Cents int `json:"cents" title:"Cents" minimum:"30" maximum:"500"`
	}
	const dearest = 30 // cents: what one search may cost, and so the least that a user can allow
	askBudget := &steps.Form[budgetForm]{ID: "budget", Message: "How many cents may I spend?", Consent: true}
	search := &saga.Effect[string, int]{
		Name: "search",
		Do: func(_ context.Context, _ saga.Key, source string) (int, error) {
			fmt.Println("searching", source)
			return 20, nil // what it has cost, as the provider says
		},
	}
	tool := saga.Flow[sources, string]{
		Info: saga.Info{Name: "search_all", Asks: []steps.Question{askBudget}, Effects: []saga.Declared{search}},
		Run: func(r *saga.Run, in sources) (string, error) {
			spent, limit := 0, 0
			for i, source := range in.Sources {
				if spent+dearest > limit {
					text := fmt.Sprintf("Searched %d of %d sources for %d cents. How many more may I spend?", i, len(in.Sources), spent)
					more, err := saga.Ask(r, askBudget.With(steps.Message(text)))
					if errors.Is(err, steps.ErrDeclined) {
						return fmt.Sprintf("Stopped after %d sources and %d cents.", i, spent), nil
					}
					if err != nil {
						return "", err
					}
					limit = spent + more.Cents
				}
				cost, err := saga.Do(r, search, source)
				if err != nil {
					return "", err
				}
				spent += cost
			}
			return fmt.Sprintf("Searched all for %d cents.", spent), nil
		},
	}
	three := fields{"sources": []string{"news", "patents", "courts"}}
	talk(tool, three, client.Accept(fields{"cents": 50}), client.Decline())
	talk(tool, three, client.Accept(fields{"cents": 50}), client.Accept(fields{"cents": 30}))
	// Output:
	// budget asks: Searched 0 of 3 sources for 0 cents. How many more may I spend?
	// searching news
	// searching patents
	// budget~2 asks: Searched 2 of 3 sources for 40 cents. How many more may I spend?
	// result: Stopped after 2 sources and 40 cents.
	// budget asks: Searched 0 of 3 sources for 0 cents. How many more may I spend?
	// searching news
	// searching patents
	// budget~2 asks: Searched 2 of 3 sources for 40 cents. How many more may I spend?
	// searching courts
	// result: Searched all for 60 cents.
}
