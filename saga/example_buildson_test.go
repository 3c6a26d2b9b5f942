package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// To undo the change of a table, its backup must still be there. The change says that
// it builds on the backup: as long as it is not undone, the backup is not dropped.
func ExampleEffect_buildsOn() {
	type none struct{}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askBegin := &steps.Form[confirmForm]{ID: "begin", Message: "Shall I change the table?"}
	askKeep := &steps.Form[confirmForm]{ID: "keep", Message: "Do you like it?"}

	busy := true
	backup := &saga.Effect[none, string]{
		Name: "back-up",
		Do:   func(_ context.Context, key saga.Key, _ none) (string, error) { return "backup-" + string(key), nil },
		Undo: func(context.Context, saga.Performed[none, string]) error {
			fmt.Println("database: drop the backup")
			return nil
		},
	}
	change := &saga.Effect[string, none]{
		Name:     "change-table",
		Tries:    1,
		BuildsOn: []saga.Declared{backup},
		Do:       func(context.Context, saga.Key, string) (none, error) { return none{}, nil },
		Undo: func(_ context.Context, p saga.Performed[string, none]) error {
			if busy {
				return errors.New("the table is locked")
			}
			fmt.Println("database: restore the table from its backup")
			return nil
		},
	}
	s := serve(nil, saga.Flow[none, string]{
		Info: saga.Info{
			Name:    "change_table",
			Asks:    []steps.Question{askBegin, askKeep},
			Effects: []saga.Declared{backup, change},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Ask(r, askBegin); err != nil {
				return "", err
			}
			from, err := saga.Do(r, backup, none{})
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, change, from); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askKeep); err != nil {
				return "", err
			}
			return "Changed.", nil
		},
	})

	call := request(s, "tools/callSaga", object{"name": "change_table"})
	changed := request(s, "tools/resumeSaga", object{
		"sagaToken":      call.Result.SagaToken,
		"completedSteps": []object{accepted("begin", object{"sure": true})},
	})
	cancelled := request(s, "tools/cancelSaga", object{"sagaToken": changed.Result.SagaToken})
	for _, c := range cancelled.Result.Content {
		fmt.Println("caller:", c.Text)
	}
	var report struct{ SagaToken string }
	if err := json.Unmarshal(cancelled.Result.Meta.Undo, &report); err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println("later:")
	busy = false
	request(s, "tools/cancelSaga", object{"sagaToken": report.SagaToken}).print()
	// Output:
	// caller: Cancelled. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token.
	// caller: Not undone: change-table, back-up. Kept until what builds on them is undone: back-up. This can be tried again.
	// later:
	// database: restore the table from its backup
	// database: drop the backup
	// caller: Cancelled.
	// caller: Undone: change-table, back-up.
	// report: {"undone":["change-table","back-up"],"outstanding":[]}
}
