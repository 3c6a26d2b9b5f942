package saga_test

import (
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A resource with a template stands for many; it may ask before it is read. The
// template's variables are its arguments.
func ExampleResource() {
	type args struct {
		ID string `json:"id"`
	}
	type state struct{}
	type turn = saga.Turn[args, state]
	type reason struct {
		Reason string `json:"reason" minLength:"3"`
	}
	askReason := &steps.Form[reason]{ID: "reason", Message: "Why do you need the file?"}
	files := map[string]string{"7": "Ada Lovelace, mathematician."}

	file := saga.Resource[args, state]{
		Machine: saga.Machine[args, state]{
			Info: saga.Info{Name: "file", Asks: []steps.Question{askReason}},
			Start: func(t *turn) (saga.Next, error) {
				if files[t.Args.ID] == "" {
					return nil, saga.ErrNotFound
				}
				return t.Ask("explained", askReason)
			},
			Steps: saga.Steps[args, state]{
				"explained": func(t *turn) (saga.Next, error) {
					if _, err := askReason.Answer(t); err != nil {
						return nil, err
					}
					return t.Contents(content.ResourceContents{URI: "files://people/" + t.Args.ID, MIMEType: "text/plain", Text: files[t.Args.ID]})
				},
			},
		},
		Template: "files://people/{id}",
		MIMEType: "text/plain",
	}

	s := serve(nil, file)
	read := object{"uri": "files://people/7"}
	asked := modern(s, "resources/read", read)
	read["requestState"] = asked.Result.RequestState
	read["inputResponses"] = object{"reason": object{"action": "accept", "content": object{"reason": "a biography"}}}
	modern(s, "resources/read", read).print()
	modern(s, "resources/read", object{"uri": "files://people/8"}).print()
	// Output:
	// files://people/7: Ada Lovelace, mathematician.
	// HTTP 200, error -32602: there is no resource at this URI
}
