package saga_test

import (
	"errors"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Failf speaks to the caller. Any other error stays with the operator: it may
// hold what nobody else should see.
func ExampleFailf() {
	type args struct {
		Account int `json:"account"`
	}
	type none struct{}
	type turn = saga.Turn[args, none]
	balance := saga.Machine[args, none]{
		Info: saga.Info{Name: "balance"},
		Start: func(t *turn) (saga.Next, error) {
			if t.Args.Account > 999 {
				return nil, saga.Failf("There is no account %d; accounts have three digits.", t.Args.Account)
			}
			if err := query(); err != nil {
				return nil, err
			}
			return t.Textf("It is 0.")
		},
	}
	talk(balance, map[string]any{"account": 5000})

	begin(balance, steps.AllFeatures(), `{"account":7}`)
	// Output:
	// error: There is no account 5000; accounts have three digits.
	// caller: The tool failed. Its operator can find the reason in the log under the saga 00000000000000000000000000000000.
	// log: tool "balance", step function "start": dial db.internal:5432 as admin: refused
}

func query() error { return errors.New("dial db.internal:5432 as admin: refused") }
