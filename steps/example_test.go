package steps_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/steps"
)

// turn stands in for the turn of a saga, which hands out the client's answers.
func turn(id, result string) steps.Answers {
	return answers{id: {StepID: id, Result: json.RawMessage(result)}}
}

type Rollout struct {
	Where  string `json:"where" title:"Where to" enum:"staging=The stage|production"`
	Slots  int    `json:"slots,omitempty" minimum:"1" maximum:"5" default:"1"`
	Notify string `json:"notify,omitempty" format:"email" jsonschema:"who is told when it is done"`
}

var rollout = &steps.Form[Rollout]{ID: "rollout", Message: "How do you want to deploy?"}

// A form is declared once, and used to ask and to read.
func ExampleForm() {
	step, err := rollout.Step()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(step.Params))

	answer, err := rollout.Answer(turn("rollout", `{"action":"accept","content":{"where":"staging","slots":2}}`))
	fmt.Println(answer.Where, answer.Slots, err)
	// Output:
	// {"message":"How do you want to deploy?","requestedSchema":{"type":"object","properties":{"where":{"type":"string","title":"Where to","oneOf":[{"const":"staging","title":"The stage"},{"const":"production","title":"production"}]},"slots":{"type":"integer","minimum":1,"maximum":5,"default":1},"notify":{"type":"string","description":"who is told when it is done","format":"email"}},"required":["where"]}}
	// staging 2 <nil>
}

type Notes struct {
	Range string `json:"range"`
	Notes string `json:"notes,omitempty"`
}

var notes = &steps.Form[Notes]{ID: "notes", Message: "What is released?"}

// With adds what is known only when the question is asked.
func ExampleForm_With() {
	step, err := notes.With(
		steps.Choices("range", steps.Choice{Value: "v1..HEAD", Title: "since v1"}, steps.Choice{Value: "v2..HEAD", Title: "since v2"}),
		steps.Default("notes", "Bugs & fixes"),
	).Step()
	fmt.Println(string(step.Params), err)
	// Output:
	// {"message":"What is released?","requestedSchema":{"type":"object","properties":{"range":{"type":"string","oneOf":[{"const":"v1..HEAD","title":"since v1"},{"const":"v2..HEAD","title":"since v2"}]},"notes":{"type":"string","default":"Bugs & fixes"}},"required":["range"]}} <nil>
}

// A user may say no, or close the form.
func ExampleForm_Answer() {
	for _, result := range []string{`{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"accept","content":{"where":"production"}}`} {
		answer, err := rollout.Answer(turn("rollout", result))
		switch {
		case errors.Is(err, steps.ErrDeclined):
			fmt.Println("will not deploy")
		case errors.Is(err, steps.ErrCancelled):
			fmt.Println("ask again later")
		case err != nil:
			fmt.Println("failed:", err)
		default:
			fmt.Println("deploy to", answer.Where)
		}
	}
	// Output:
	// will not deploy
	// ask again later
	// deploy to production
}

// A question asked in a loop has an id for each round.
func ExampleForm_Nth() {
	for i := range 3 {
		step, _ := rollout.Nth(i + 1).Step()
		fmt.Println(step.ID)
	}
	// Output:
	// rollout#1
	// rollout#2
	// rollout#3
}

// A client reads the form it is to show, and validates with the server's code.
func ExampleStep_Form() {
	step, _ := rollout.Step()
	form, err := step.Form()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range form.Fields {
		fmt.Println(f.Label(), f.Type, f.Required)
	}
	fmt.Println(form.Validate(map[string]any{"where": "staging", "notify": "nobody"}))
	// Output:
	// Where to string true
	// slots integer false
	// notify string false
	// the content is not valid: notify: must be an email address, such as ada@example.com
}

var judge = &steps.Sample{ID: "judge", Request: steps.SampleRequest{MaxTokens: 100, SystemPrompt: "Answer yes or no."}}

// A model is asked with messages that are made when they are needed.
func ExampleSample() {
	step, err := judge.With(steps.Promptf("Is deploying to '%s' safe right now?", "production")).Step()
	fmt.Println(string(step.Params), err)

	said, err := judge.Answer(turn("judge", `{"role":"assistant","content":{"type":"text","text":"Yes."},"model":"m"}`))
	fmt.Println(said.Text(), err)
	// Output:
	// {"messages":[{"role":"user","content":{"type":"text","text":"Is deploying to 'production' safe right now?"}}],"maxTokens":100,"systemPrompt":"Answer yes or no."} <nil>
	// Yes. <nil>
}

var signIn = &steps.Link{ID: "sign-in", Message: "Please sign in to the bank."}

// Secrets are entered on a page, never in a form.
func ExampleLink() {
	step, err := signIn.With(steps.URL("https://bank.example/connect?saga=42")).Step()
	fmt.Println(string(step.Params), err)
	fmt.Println(signIn.Answer(turn("sign-in", `{"action":"accept"}`)))
	// Output:
	// {"mode":"url","message":"Please sign in to the bank.","url":"https://bank.example/connect?saga=42"} <nil>
	// <nil>
}

var workspace = &steps.RootsList{ID: "workspace"}

// Roots say where the client works.
func ExampleRootsList() {
	roots, err := workspace.Answer(turn("workspace", `{"roots":[{"uri":"file:///home/ada/project","name":"Project"}]}`))
	fmt.Println(roots[0].Name, roots[0].URI, err)
	// Output:
	// Project file:///home/ada/project <nil>
}
