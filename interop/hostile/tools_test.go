package hostile_test

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Definitions are tools, a prompt and resources that take whatever a request can
// bring, for a server to be measured with.
func Definitions() []saga.Definition {
	return []saga.Definition{
		saga.Machine[anything, none]{Info: saga.Info{Name: "take"}, Start: end[anything]},
		saga.Machine[json.RawMessage, none]{Info: saga.Info{Name: "strict", RawInputSchema: strictSchema}, Start: end[json.RawMessage]},
		saga.Machine[anything, none]{
			Info: saga.Info{Name: "ask", Asks: []steps.Question{askForm, askModel, askRoots}},
			Start: func(t *saga.Turn[anything, none]) (saga.Next, error) {
				return t.Ask("asked", askForm, askModel, askRoots)
			},
			Steps: saga.Steps[anything, none]{"asked": end[anything]},
		},
		saga.Machine[anything, none]{ // asks as a task where there are any
			Info: saga.Info{Name: "later", Asks: []steps.Question{askForm, askModel, askRoots, askNever}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
			Start: func(t *saga.Turn[anything, none]) (saga.Next, error) {
				return t.Ask("asked", askForm, askModel, askRoots, askNever)
			},
			Steps: saga.Steps[anything, none]{"asked": end[anything]},
		},
		saga.Flow[anything, string]{
			Info: saga.Info{Name: "flow", Asks: []steps.Question{askForm, askModel}},
			Run: func(r *saga.Run, _ anything) (string, error) {
				for range 3 {
					if _, err := saga.Ask(r, askForm); err != nil {
						return "", err
					}
				}
				_, err := saga.Ask(r, askModel)
				return "done", err
			},
		},
		saga.Prompt[promptArguments, none]{
			Machine: saga.Machine[promptArguments, none]{
				Info: saga.Info{Name: "prompt"},
				Start: func(t *saga.Turn[promptArguments, none]) (saga.Next, error) {
					return t.Messages()
				},
			},
			Complete: map[string]saga.Completer{"text": suggestions},
		},
		resource("path", "file:///{path}"), resource("all", "all:///{+path}"), resource("list", "list://{/path*}"),
		resource("query", "query://x{?path*}"), resource("mixed", "mixed:///{path}{+path}{.path*}{/path*}"),
	}
}

type none = struct{}

type anything struct {
	Text    string                  `json:"text,omitempty"`
	Number  float64                 `json:"number,omitempty"`
	Count   int64                   `json:"count,omitempty"`
	List    []string                `json:"list,omitempty"`
	Numbers []float64               `json:"numbers,omitempty"`
	Map     map[string]string       `json:"map,omitempty"`
	Any     any                     `json:"any,omitempty"`
	Times   map[string][]*time.Time `json:"times,omitempty"`
	Records []struct {
		A string `json:"a,omitempty"`
	} `json:"records,omitempty"`
}

// strictSchema has the keywords that are known to cost.
var strictSchema = json.RawMessage(`{"type":"object","properties":{
	"unique":{"type":"array","uniqueItems":true},
	"pattern":{"type":"string","pattern":"^(a+)+$"},
	"any":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}},{"type":"object","additionalProperties":{"type":"string"}}]},
	"one":{"oneOf":[{"type":"array","contains":{"const":"never"}},{"type":"array","items":{"enum":["a","b","c"]}},{"type":"object","propertyNames":{"maxLength":3}}]},
	"patterned":{"type":"object","patternProperties":{"^a.*b$":{"type":"string"},"^(x+)+y$":{"type":"number"}}}}}`)

type promptArguments struct {
	Text string `json:"text,omitempty"`
}

type formAnswer struct {
	Text   string   `json:"text,omitempty"`
	Email  string   `json:"email,omitempty" format:"email"`
	URI    string   `json:"uri,omitempty" format:"uri"`
	Number float64  `json:"number,omitempty"`
	One    string   `json:"one,omitempty" enum:"a|b|c"`
	Many   []string `json:"many,omitempty" enum:"a|b|c"`
}

var (
	askForm  = &steps.Form[formAnswer]{ID: "form", Message: "Please."}
	askModel = &steps.Sample{ID: "model", Request: steps.SampleRequest{MaxTokens: 10, Messages: []steps.SampleMessage{steps.UserText("Hello.")}}}
	askRoots = &steps.RootsList{ID: "roots"}
	askNever = &steps.Form[formAnswer]{ID: "never", Message: "Nobody answers this."}
)

func end[A any](t *saga.Turn[A, none]) (saga.Next, error) { return t.Textf("done") }

type pathArguments struct {
	Path string `json:"path"`
}

func resource(name, template string) saga.Definition {
	return saga.Resource[pathArguments, none]{
		Machine: saga.Machine[pathArguments, none]{
			Info: saga.Info{Name: name},
			Start: func(t *saga.Turn[pathArguments, none]) (saga.Next, error) {
				return t.Contents(content.ResourceContents{URI: "x:y", Text: "contents"})
			},
		},
		Template: template,
		Complete: map[string]saga.Completer{"path": suggestions},
	}
}

func suggestions(_ context.Context, typed string, _ map[string]string) ([]string, error) {
	if strings.HasPrefix("suggestion", typed) {
		return []string{"suggestion"}, nil
	}
	return nil, nil
}
