package saga_test

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type vote struct {
	For string `json:"for" enum:"soup|pasta"`
}

var askVote = &steps.Form[vote]{ID: "vote", Message: "Soup or pasta?"}

// poll asks for a vote. It has no effects, so whether a vote can be changed must be said.
func poll(use saga.SingleUse) saga.Flow[struct{}, string] {
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "poll", Asks: []steps.Question{askVote}, SingleUse: use},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			v, err := saga.Ask(r, askVote)
			if err != nil {
				return "", err
			}
			return "One vote for " + v.For + ".", nil
		},
	}
}

// A tool without effects takes each turn once if it demands so, and is refused where
// nothing could remember it. Other answers to a turn that was taken are refused.
func ExampleSingleUse() {
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	o := server.Options{Tools: []saga.Definition{poll(saga.SingleUseRequired)}, Keys: keys, Logger: slog.New(slog.DiscardHandler)}
	_, err = server.New(o)
	fmt.Println("without a ledger:", err)

	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	o.Ledger = store
	s := serveWith(o)
	defer s.Close()
	token := request(s, "tools/callSaga", object{"name": "poll"}).Result.SagaToken
	for _, dish := range []string{"soup", "soup", "pasta"} {
		request(s, "tools/resumeSaga", object{
			"sagaToken":      token,
			"completedSteps": []object{accepted("vote", object{"for": dish})},
		}).print()
	}
	// Output:
	// without a ledger: server: tool "poll": its SingleUse is required, for which the server needs a ledger
	// caller: One vote for soup.
	// caller: One vote for soup.
	// HTTP 200, error -32602: the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga
}

// With a ledger, a token can be short whatever the saga holds.
func ExampleInfo_shortTokens() {
	type text struct {
		Text string `json:"text"`
	}
	tool := saga.Flow[text, string]{
		Info: saga.Info{Name: "keep", Asks: []steps.Question{askVote}, ShortTokens: true},
		Run: func(r *saga.Run, in text) (string, error) {
			if _, err := saga.Ask(r, askVote); err != nil {
				return "", err
			}
			return fmt.Sprintf("%d characters are still there.", len(in.Text)), nil
		},
	}
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	s := serveWith(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Ledger: store})
	defer s.Close()

	long := strings.Repeat("all that is to be kept; ", 4000)
	token := request(s, "tools/callSaga", object{"name": "keep", "arguments": object{"text": long}}).Result.SagaToken
	fmt.Println("the token is short:", len(token) < 300)
	request(s, "tools/resumeSaga", object{
		"sagaToken":      token,
		"completedSteps": []object{accepted("vote", object{"for": "soup"})},
	}).print()
	// Output:
	// the token is short: true
	// caller: 96000 characters are still there.
}
