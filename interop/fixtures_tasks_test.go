package interop

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type greeting struct {
	Name string `json:"name"`
}

type computation struct {
	Seconds float64 `json:"seconds" minimum:"0"`
	Label   string  `json:"label"`
}

type deletion struct {
	Filename string `json:"filename"`
}

type agreed struct {
	Confirm bool `json:"confirm"`
}

var (
	askDelete   = &steps.Form[agreed]{ID: "confirm", Message: "Delete the file?"}
	askNickname = &steps.Form[named]{ID: "name", Message: "What is your name?"}
	askGoOn     = &steps.Form[agreed]{ID: "go_on", Message: "Go on?"}
)

// poll is how often clients look: tests are in a hurry.
const poll = 100 * time.Millisecond

// tasked are tools that may take long, and one that does not.
func tasked() []saga.Definition {
	return []saga.Definition{hello, slowCompute, failingJob, brokenJob, confirmDelete, multiInput, withTask}
}

var hello = saga.Flow[greeting, string]{
	Info: saga.Info{Name: "greet", Description: "Greets somebody, at once."},
	Run:  func(_ *saga.Run, a greeting) (string, error) { return "Hello, " + a.Name + "!", nil },
}

var slowCompute = saga.Flow[computation, string]{
	Info: saga.Info{
		Name: "slow_compute", Description: "Takes as many seconds as it is told.",
		Tasks: saga.Tasks{Mode: saga.TasksOptional, Poll: poll},
	},
	Run: func(r *saga.Run, a computation) (string, error) {
		if err := r.Sleep(time.Duration(a.Seconds * float64(time.Second))); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s took %g seconds.", a.Label, a.Seconds), nil
	},
}

// failingJob ends with a result that says that it has failed.
var failingJob = saga.Flow[none, string]{
	Info: saga.Info{Name: "failing_job", Description: "Fails after a second.", Tasks: saga.Tasks{Mode: saga.TasksRequired, Poll: poll}},
	Run: func(r *saga.Run, _ none) (string, error) {
		if err := r.Sleep(time.Second); err != nil {
			return "", err
		}
		return "", saga.Failf("this job always fails")
	},
}

// brokenJob ends without a result.
var brokenJob = saga.Flow[none, string]{
	Info: saga.Info{Name: "protocol_error_job", Description: "Breaks.", Tasks: saga.Tasks{Mode: saga.TasksOptional, Poll: poll}},
	Run:  func(*saga.Run, none) (string, error) { panic("this job always breaks") },
}

var confirmDelete = saga.Flow[deletion, string]{
	Info: saga.Info{
		Name: "confirm_delete", Description: "Asks whether to delete a file, which it does not.", Asks: []steps.Question{askDelete},
		Tasks: saga.Tasks{Mode: saga.TasksOptional, Poll: poll},
	},
	Run: func(r *saga.Run, a deletion) (string, error) {
		said, err := saga.Ask(r, askDelete)
		if err != nil {
			return "", err
		}
		if !said.Confirm {
			return a.Filename + " is kept.", nil
		}
		return a.Filename + " would be deleted.", nil
	},
}

var multiInput = saga.Flow[none, string]{
	Info: saga.Info{
		Name: "multi_input", Description: "Asks two things at once.", Asks: []steps.Question{askNickname, askGoOn},
		Tasks: saga.Tasks{Mode: saga.TasksOptional, Poll: poll},
	},
	Run: func(r *saga.Run, _ none) (string, error) {
		if err := r.AskAll(askNickname, askGoOn); err != nil {
			return "", err
		}
		who, err1 := askNickname.Answer(r)
		on, err2 := askGoOn.Answer(r)
		return fmt.Sprintf("%s goes on: %t", who.Name, on.Confirm), errors.Join(err1, err2)
	},
}

// withTask asks for a name before it becomes a task.
var withTask = saga.Flow[none, string]{
	Info: saga.Info{
		Name: "test_tool_with_task", Description: "Asks for a name, then greets in a task.", Asks: []steps.Question{askName},
		Tasks: saga.Tasks{Mode: saga.TasksRequired, After: "user_name", Poll: poll},
	},
	Run: func(r *saga.Run, _ none) (string, error) {
		who, err := saga.Ask(r, askName)
		if err != nil {
			return "", err
		}
		if err := r.Sleep(200 * time.Millisecond); err != nil {
			return "", err
		}
		return "Hello, " + who.Name + "!", nil
	},
}
