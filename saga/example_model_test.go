package saga_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The client's model proposes, the tool checks, and the user decides. A client without a model loses only the proposal.
func Example_modelInTheLoop() {
	type ticket struct {
		Text string `json:"text"`
	}
	type teamForm struct {
		Team string `json:"team" enum:"billing|network|sales"`
	}
	teams := []string{"billing", "network", "sales"}
	askModel := &steps.Sample{ID: "guess", Request: steps.SampleRequest{MaxTokens: 10, SystemPrompt: "Answer with one word."}}
	askTeam := &steps.Form[teamForm]{ID: "team", Message: "Which team shall have it?"}
	assign := &saga.Effect[string, bool]{
		Name: "assign",
		Do:   func(context.Context, saga.Key, string) (bool, error) { return true, nil },
	}
	route := saga.Flow[ticket, string]{
		Info: saga.Info{Name: "route_ticket", Asks: []steps.Question{askModel, askTeam}, Effects: []saga.Declared{assign}},
		Run: func(r *saga.Run, in ticket) (string, error) {
			decide, hint := askTeam, ""
			for range 2 {
				said, err := saga.Ask(r, askModel.With(steps.Promptf("%sIs this for billing, network or sales? %q", hint, in.Text)))
				if _, ok := errors.AsType[*steps.ClientError](err); ok {
					break // no model, or none that answers
				}
				if err != nil {
					return "", err
				}
				if guess := strings.ToLower(strings.Trim(said.Text(), " .\n")); slices.Contains(teams, guess) {
					decide = askTeam.With(steps.Default("team", guess), steps.Message("Shall the team "+guess+" have it?"))
					break
				}
				hint = "Only one of the three words. "
			}
			chosen, err := saga.Ask(r, decide)
			if err != nil {
				return "", err
			}
			_, err = saga.Do(r, assign, chosen.Team)
			return "It is with " + chosen.Team + ".", err
		},
	}
	network := client.Accept(fields{"team": "network"})
	talk(route, fields{"text": "No signal"}, "It depends!", "Network.", network)
	talk(route, fields{"text": "No signal"}, errors.New("no model here"), network)
	// Output:
	// guess asks the model: Is this for billing, network or sales? "No signal"
	// guess~2 asks the model: Only one of the three words. Is this for billing, network or sales? "No signal"
	// team asks: Shall the team network have it?
	// result: It is with network.
	// guess asks the model: Is this for billing, network or sales? "No signal"
	// team asks: Which team shall have it?
	// result: It is with network.
}
