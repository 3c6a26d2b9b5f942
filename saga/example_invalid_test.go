package saga_test

import (
	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What does not fit the form never reaches the tool: the engine asks again and
// says why.
func Example_invalidAnswer() {
	type none struct{}
	type turn = saga.Turn[none, none]
	type contactForm struct {
		Email string `json:"email" title:"Address" format:"email"`
	}
	askContact := &steps.Form[contactForm]{ID: "contact", Message: "Who is told when it is done?"}

	notify := saga.Machine[none, none]{
		Info: saga.Info{
			Name:        "notify",
			Asks:        []steps.Question{askContact},
			MaxAttempts: 2,
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("contact", askContact) },
		Steps: saga.Steps[none, none]{
			"contact": func(t *turn) (saga.Next, error) {
				contact, err := askContact.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Textf("Telling %s.", contact.Email)
			},
		},
	}
	talk(notify, nil, client.Accept(fields{"email": "ada"}), client.Accept(fields{"email": "ada@example.com"}))
	talk(notify, nil, client.Accept(fields{"email": "ada"}), client.Accept(fields{}))
	// Output:
	// contact asks: Who is told when it is done?
	// contact~2 asks: Who is told when it is done?
	//
	// That cannot be used, please correct it. Address: must be an email address, such as ada@example.com
	// result: Telling ada@example.com.
	// contact asks: Who is told when it is done?
	// contact~2 asks: Who is told when it is done?
	//
	// That cannot be used, please correct it. Address: must be an email address, such as ada@example.com
	// error: Stopped: "contact" was answered 2 times without a valid answer; the last time: Address: is required
}
