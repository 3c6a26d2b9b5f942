package saga_test

import (
	"errors"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A question that is not answered is ordinary. Who does not care returns the
// error; who does, looks at it.
func Example_outcomes() {
	type none struct{}
	type turn = saga.Turn[none, none]
	type commentForm struct {
		Comment string `json:"comment"`
	}
	askComment := &steps.Form[commentForm]{ID: "comment", Message: "Do you want to add a comment?"}

	submit := saga.Machine[none, none]{
		Info: saga.Info{
			Name: "submit_report",
			Asks: []steps.Question{askComment},
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("commented", askComment) },
		Steps: saga.Steps[none, none]{
			"commented": func(t *turn) (saga.Next, error) {
				form, err := askComment.Answer(t)
				var failed *steps.ClientError
				switch {
				case errors.Is(err, steps.ErrDeclined):
					return t.Textf("Submitted without a comment.")
				case errors.As(err, &failed) && failed.Code == -32601:
					return t.Textf("Submitted. This client shows no forms, so there is no comment.")
				case err != nil:
					return nil, err // cancelled, or failed in another way: stop
				}
				return t.Textf("Submitted with the comment %q.", form.Comment)
			},
		},
	}
	talk(submit, nil, client.Accept(fields{"comment": "at last"}))
	talk(submit, nil, client.Decline())
	talk(submit, nil, client.Cancel())
	talk(submit, nil, &client.Error{Code: -32601, Message: "no forms here"})
	talk(submit, nil, &client.Error{Code: -32603, Message: "the window is gone"})
	// Output:
	// comment asks: Do you want to add a comment?
	// result: Submitted with the comment "at last".
	// comment asks: Do you want to add a comment?
	// result: Submitted without a comment.
	// comment asks: Do you want to add a comment?
	// error: Stopped: "comment" was cancelled.
	// comment asks: Do you want to add a comment?
	// result: Submitted. This client shows no forms, so there is no comment.
	// comment asks: Do you want to add a comment?
	// error: Stopped: "comment" could not be performed (error -32603).
}
