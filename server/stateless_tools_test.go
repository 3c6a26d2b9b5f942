package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The tools, prompts and resources that the tests of the stateless dialect call.

type (
	none     struct{}
	nameForm struct {
		Name string `json:"name"`
	}
	colorForm struct {
		Color string `json:"color"`
	}
	plain = saga.Turn[none, none]
)

var (
	askName  = &steps.Form[nameForm]{ID: "user_name", Message: "What is your name?"}
	askColor = &steps.Form[colorForm]{ID: "color", Message: "Which color?"}
	askPage  = &steps.Link{ID: "page", Message: "Sign in", URL: "https://example.com/sign-in"}
	askModel = &steps.Sample{ID: "model", Request: steps.SampleRequest{MaxTokens: 10, Messages: []steps.SampleMessage{steps.UserText("Say hello")}}}
	askTools = &steps.Sample{ID: "agent", Request: steps.SampleRequest{
		MaxTokens: 10, Messages: []steps.SampleMessage{steps.UserText("Use it")}, Tools: []steps.SampleTool{{Name: "look"}},
	}}
	askRoots = &steps.RootsList{ID: "client_roots"}
)

// asking is a tool that asks once and says what came.
func asking(name string, ask func(*plain) []steps.Request, asks ...steps.Question) saga.Machine[none, none] {
	return saga.Machine[none, none]{
		Info:  saga.Info{Name: name, Description: "Asks.", Asks: asks},
		Start: func(t *plain) (saga.Next, error) { return t.Ask("answered", ask(t)...) },
		Steps: saga.Steps[none, none]{"answered": func(t *plain) (saga.Next, error) {
			for _, q := range asks {
				if a, ok := t.StepAnswer(q.StepID()); ok && a.Error != nil {
					return nil, &steps.StepError{StepID: q.StepID(), Err: a.Error}
				}
			}
			if form, err := askName.Answer(t); !errors.Is(err, steps.ErrNotAsked) {
				if err != nil {
					return nil, err
				}
				return t.Textf("Hello, %s!", form.Name)
			}
			return t.Textf("answered")
		}},
	}
}

func all(asks ...steps.Request) func(*plain) []steps.Request {
	return func(*plain) []steps.Request { return asks }
}

func tool(name string, run func(*plain) (saga.Next, error)) saga.Machine[none, none] {
	return saga.Machine[none, none]{Info: saga.Info{Name: name, Description: "Does something."}, Start: run}
}

type headerArgs struct {
	Region string `json:"region,omitempty"`
	Level  int    `json:"level,omitempty"`
	Dry    *bool  `json:"dry,omitempty"`
	Nested struct {
		Zone string `json:"zone,omitempty"`
	} `json:"nested,omitzero"`
}

// headerTool says its arguments; headers repeat them.
func headerTool() saga.Machine[headerArgs, none] {
	in := func(kind, header string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: kind, Extra: map[string]any{"x-mcp-header": header}}
	}
	return saga.Machine[headerArgs, none]{
		Info: saga.Info{
			Name: "headers", Description: "Repeats arguments in headers.",
			InputSchema: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
				"region": in("string", "Region"), "level": in("integer", "Level"), "dry": in("boolean", "Dry"),
				"nested": {Type: "object", Properties: map[string]*jsonschema.Schema{"zone": in("string", "Zone")}},
			}},
		},
		Start: func(t *saga.Turn[headerArgs, none]) (saga.Next, error) {
			return t.Textf("region=%s", t.Args.Region)
		},
	}
}

// rounds asks eight times, in the third round for two things.
type roundsState struct{ Said []string }

type roundsTurn = saga.Turn[none, roundsState]

func roundsProgram() (asks []steps.Question, start func(*saga.Turn[none, roundsState]) (saga.Next, error), funcs saga.Steps[none, roundsState]) {
	forms := make([]*steps.Form[nameForm], 9)
	for i := range forms {
		forms[i] = &steps.Form[nameForm]{ID: fmt.Sprintf("q%d", i+1), Message: fmt.Sprintf("Question %d?", i+1)}
		asks = append(asks, forms[i])
	}
	group := [][]int{{0}, {1}, {2, 3}, {4}, {5}, {6}, {7}, {8}}
	ask := func(t *roundsTurn, round int) (saga.Next, error) {
		var q []steps.Request
		for _, i := range group[round] {
			q = append(q, forms[i])
		}
		return t.Ask(fmt.Sprintf("round%d", round+1), q...)
	}
	funcs = saga.Steps[none, roundsState]{}
	for round := range group {
		funcs[fmt.Sprintf("round%d", round+1)] = func(t *roundsTurn) (saga.Next, error) {
			for _, i := range group[round] {
				form, err := forms[i].Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.Said = append(t.State.Said, form.Name)
			}
			if round+1 < len(group) {
				return ask(t, round+1)
			}
			return t.Textf("%v", t.State.Said)
		}
	}
	return asks, func(t *roundsTurn) (saga.Next, error) { return ask(t, 0) }, funcs
}

func roundsAsTool() saga.Definition {
	asks, start, funcs := roundsProgram()
	return saga.Machine[none, roundsState]{Info: saga.Info{Name: "rounds", Description: "Asks eight times.", Asks: asks}, Start: start, Steps: funcs}
}

type personArgs struct {
	Person string `json:"person" jsonschema:"whom to greet"`
	Style  string `json:"style,omitempty"`
}

type idArgs struct {
	ID string `json:"id"`
}

// statelessTools are all of them. One that does no harm comes first.
func statelessTools() []saga.Definition {
	return []saga.Definition{
		tool("hello", func(t *plain) (saga.Next, error) { return t.Textf("Hello!") }),
		asking("ask_name", all(askName), askName),
		asking("ask_page", all(askPage), askPage),
		asking("ask_model", all(askModel), askModel),
		asking("ask_agent", all(askTools), askTools),
		asking("ask_roots", all(askRoots), askRoots),
		asking("ask_all", all(askName, askModel, askRoots), askName, askModel, askRoots),
		asking("page_or_name", all(steps.Otherwise(askPage, askName)), askPage, askName),
		asking("what_it_can", func(t *plain) (asks []steps.Request) {
			for _, q := range []steps.Question{askName, askPage, askModel, askRoots} {
				if step, err := q.Step(); err == nil && t.Can(step.Needs) {
					asks = append(asks, q)
				}
			}
			return asks
		}, askName, askPage, askModel, askRoots),
		tool("progress", func(t *plain) (saga.Next, error) {
			for _, done := range []float64{0, 50, 50, 40, 100} {
				t.Progress(done, 100, "")
			}
			return t.Textf("done")
		}),
		tool("log", func(t *plain) (saga.Next, error) {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.Level(20)} {
				t.Log(level, object{"says": engine.LevelName(level)})
			}
			return t.Textf("logged")
		}),
		tool("list", func(t *plain) (saga.Next, error) { return t.Structured([]int{1, 2}) }),
		tool("meta", func(t *plain) (saga.Next, error) {
			return t.Finish(&content.Result{Meta: object{"example.com/x": 1, "io.modelcontextprotocol/serverInfo": "forged"}})
		}),
		tool("fails", func(t *plain) (saga.Next, error) { return nil, saga.Failf("It did not work.") }),
		tool("panics", func(t *plain) (saga.Next, error) { panic("secret detail") }),
		tool("sleeps", func(t *plain) (saga.Next, error) {
			select {
			case <-t.Done():
				return nil, t.Err()
			case <-time.After(time.Minute):
				return t.Textf("awake")
			}
		}),
		headerTool(),
		saga.Machine[personArgs, none]{
			Info: saga.Info{Name: "greet", Description: "Greets."},
			Start: func(t *saga.Turn[personArgs, none]) (saga.Next, error) {
				return t.Textf("Hello, %s!", t.Args.Person)
			},
		},
		saga.Machine[personArgs, none]{
			Info: saga.Info{Name: "ask_about", Description: "Asks about a person.", Asks: []steps.Question{askColor}},
			Start: func(t *saga.Turn[personArgs, none]) (saga.Next, error) {
				return t.Ask("answered", askColor)
			},
			Steps: saga.Steps[personArgs, none]{"answered": func(t *saga.Turn[personArgs, none]) (saga.Next, error) {
				form, err := askColor.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Textf("%s likes %s", t.Args.Person, form.Color)
			}},
		},
		roundsAsTool(),
		promptWithArguments(), promptRounds(), resourceStatic(), resourceBlob(), resourceTemplate(), resourceRounds(),
	}
}

func promptWithArguments() saga.Definition {
	return saga.Prompt[personArgs, none]{
		Machine: saga.Machine[personArgs, none]{
			Info: saga.Info{Name: "greeting", Description: "A greeting."},
			Start: func(t *saga.Turn[personArgs, none]) (saga.Next, error) {
				if t.Args.Person == "nobody" {
					return nil, saga.Failf("Nobody is there.")
				}
				return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: "Greet " + t.Args.Person}})
			},
		},
		Complete: map[string]saga.Completer{"person": func(_ context.Context, typed string, others map[string]string) ([]string, error) {
			switch typed {
			case "fail":
				return nil, errors.New("secret detail")
			case "panic":
				panic("secret detail")
			case "many":
				return make([]string, 250), nil
			}
			return []string{typed + "1", typed + others["style"]}, nil
		}},
	}
}

func promptRounds() saga.Definition {
	asks, start, funcs := roundsProgram()
	last := funcs["round8"]
	funcs["round8"] = func(t *roundsTurn) (saga.Next, error) {
		if _, err := last(t); err != nil {
			return nil, err
		}
		return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: fmt.Sprint(t.State.Said)}})
	}
	return saga.Prompt[none, roundsState]{Machine: saga.Machine[none, roundsState]{Info: saga.Info{Name: "rounds", Description: "Asks eight times.", Asks: asks}, Start: start, Steps: funcs}}
}

func resourceStatic() saga.Definition {
	return saga.Resource[none, none]{
		Machine: saga.Machine[none, none]{
			Info: saga.Info{Name: "motto", Description: "A motto."},
			Start: func(t *plain) (saga.Next, error) {
				return t.Contents(content.ResourceContents{URI: "test://motto", MIMEType: "text/plain", Text: "Ask twice."})
			},
		},
		URI:      "test://motto",
		MIMEType: "text/plain",
	}
}

func resourceBlob() saga.Definition {
	return saga.Resource[none, none]{
		Machine: saga.Machine[none, none]{
			Info: saga.Info{Name: "blob", Description: "Bytes."},
			Start: func(t *plain) (saga.Next, error) {
				return t.Contents(content.ResourceContents{URI: "test://blob", Blob: []byte{0, 255}})
			},
		},
		URI: "test://blob",
	}
}

func resourceTemplate() saga.Definition {
	return saga.Resource[idArgs, none]{
		Machine: saga.Machine[idArgs, none]{
			Info: saga.Info{Name: "note", Description: "A note.", Asks: []steps.Question{askName}},
			Start: func(t *saga.Turn[idArgs, none]) (saga.Next, error) {
				if t.Args.ID == "gone" {
					return nil, fmt.Errorf("note: %w", saga.ErrNotFound)
				}
				return t.Ask("answered", askName)
			},
			Steps: saga.Steps[idArgs, none]{"answered": func(t *saga.Turn[idArgs, none]) (saga.Next, error) {
				form, err := askName.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Contents(content.ResourceContents{URI: "test://note/" + t.Args.ID, Text: t.Args.ID + " for " + form.Name})
			}},
		},
		Template: "test://note/{id}",
		Complete: map[string]saga.Completer{"id": func(context.Context, string, map[string]string) ([]string, error) { return []string{"7"}, nil }},
	}
}

func resourceRounds() saga.Definition {
	asks, start, funcs := roundsProgram()
	last := funcs["round8"]
	funcs["round8"] = func(t *roundsTurn) (saga.Next, error) {
		if _, err := last(t); err != nil {
			return nil, err
		}
		return t.Contents(content.ResourceContents{URI: "test://rounds", Text: fmt.Sprint(t.State.Said)})
	}
	return saga.Resource[none, roundsState]{Machine: saga.Machine[none, roundsState]{Info: saga.Info{Name: "rounds", Description: "Asks eight times.", Asks: asks}, Start: start, Steps: funcs}, URI: "test://rounds"}
}
