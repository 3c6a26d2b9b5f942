package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/examples/longtalk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type empty struct{}

type colour struct {
	Colour hue `json:"colour"`
}

type hue string

func (hue) Choices() []steps.Choice {
	return []steps.Choice{{Value: "r", Title: "Red"}, {Value: "g", Title: "Green"}}
}

type wish struct {
	Name string `json:"name"`
}

var (
	legacyForm    = &steps.Form[wish]{ID: "form", Message: "Your name?"}
	legacyColour  = &steps.Form[colour]{ID: "colour", Message: "Which?"}
	legacyLink    = &steps.Link{ID: "link", Message: "Sign in.", URL: "https://example.com/login"}
	legacySample  = &steps.Sample{ID: "sample", Request: steps.SampleRequest{MaxTokens: 5, Messages: []steps.SampleMessage{steps.UserText("Hello")}}}
	legacyTools   = &steps.Sample{ID: "tools", Request: steps.SampleRequest{MaxTokens: 5, Messages: []steps.SampleMessage{steps.UserText("Hello")}, Tools: []steps.SampleTool{{Name: "t"}}}}
	legacyContext = &steps.Sample{ID: "context", Request: steps.SampleRequest{MaxTokens: 5, Messages: []steps.SampleMessage{steps.UserText("Hello")}, IncludeContext: "thisServer"}}
	legacyBlocks  = &steps.Sample{ID: "blocks", Request: steps.SampleRequest{MaxTokens: 5, Messages: []steps.SampleMessage{
		{Role: content.User, Content: content.Blocks{content.Text{Text: "one"}, content.Audio{Data: []byte("x"), MIMEType: "audio/wav"}}},
	}}}
	legacyRoots = &steps.RootsList{ID: "roots"}
)

type which struct {
	What string `json:"what"`
}

// legacyAsk asks any question.
var legacyAsk = saga.Machine[which, empty]{
	Info: saga.Info{Name: "ask", Asks: []steps.Question{legacyForm, legacyColour, legacyLink, legacySample, legacyTools, legacyContext, legacyBlocks, legacyRoots}},
	Start: func(t *saga.Turn[which, empty]) (saga.Next, error) {
		ask := map[string]steps.Request{
			"form": legacyForm, "colour": legacyColour, "link": legacyLink, "sample": legacySample, "tools": legacyTools,
			"context": legacyContext, "blocks": legacyBlocks, "roots": legacyRoots, "either": steps.Otherwise(legacyLink, legacyForm),
		}[t.Args.What]
		return t.Ask("asked", ask)
	},
	Steps: saga.Steps[which, empty]{"asked": func(t *saga.Turn[which, empty]) (saga.Next, error) {
		for _, id := range []string{"form", "colour", "link", "sample", "tools", "context", "blocks", "roots"} {
			if a, ok := t.StepAnswer(id); ok && a.Error == nil {
				return t.Textf("%s: %s", id, a.Result)
			} else if ok {
				return t.Textf("%s failed: %d", id, a.Error.Code)
			}
		}
		return t.Textf("nothing")
	}},
}

// legacyTalk reports progress and logs, more than once and not always forward.
var legacyTalk = saga.Flow[empty, string]{
	Info: saga.Info{Name: "talk", Asks: []steps.Question{legacyForm}},
	Run: func(r *saga.Run, _ empty) (string, error) {
		for _, done := range []float64{1, 2, 2, 1, 3} {
			r.Progress(done, 4, "working")
		}
		r.Log(slog.LevelDebug, "a detail")
		r.Log(slog.LevelInfo, map[string]any{"a": []int{1}})
		r.Log(slog.LevelError, "a problem")
		if _, err := saga.Ask(r, legacyForm); err != nil {
			return "", err
		}
		r.Progress(4, 4, "")
		return "talked", nil
	},
}

type times struct {
	N int `json:"n"`
}

// legacyFlood logs a lot.
var legacyFlood = saga.Flow[times, string]{
	Info: saga.Info{Name: "flood"},
	Run: func(r *saga.Run, in times) (string, error) {
		for i := range min(in.N, 20_000) {
			r.Log(slog.LevelInfo, fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)))
		}
		return "flooded", nil
	},
}

// legacyContents returns blocks of every type.
var legacyContents = saga.Flow[empty, *content.Result]{
	Info: saga.Info{Name: "contents"},
	Run: func(*saga.Run, empty) (*content.Result, error) {
		return &content.Result{
			Content: content.Blocks{
				content.Text{Text: "t"}, content.Audio{Data: []byte("a"), MIMEType: "audio/wav"},
				content.ResourceLink{URI: "x://y", Name: "n", Title: "T", Description: "D"},
				content.EmbeddedResource{URI: "x://z", Text: "r"},
			},
			StructuredContent: []byte(`{"a":1}`),
		}, nil
	},
}

// legacyList returns a structured result that is no object.
var legacyList = saga.Flow[empty, *content.Result]{
	Info: saga.Info{Name: "list"},
	Run: func(*saga.Run, empty) (*content.Result, error) {
		return &content.Result{StructuredContent: []byte(`[1,2]`)}, nil
	},
}

type sum struct {
	Sum int `json:"sum"`
}

// legacySum has an output schema.
var legacySum = saga.Flow[empty, sum]{Info: saga.Info{Name: "sum"}, Run: func(*saga.Run, empty) (sum, error) { return sum{3}, nil }}

// away gives up its connection and works on.
var legacyAway = saga.Flow[empty, string]{
	Info: saga.Info{Name: "away"},
	Run: func(r *saga.Run, _ empty) (string, error) {
		r.Log(slog.LevelInfo, "before")
		r.Disconnect(123 * time.Millisecond)
		r.Log(slog.LevelInfo, "after")
		time.Sleep(20 * time.Millisecond)
		return "away and back", nil
	},
}

// gate is a tool that stays in its turn until it is let go or stopped.
type gate struct {
	entered chan bool
	leave   chan bool
	stopped chan error
}

func newGate() *gate {
	return &gate{make(chan bool, 8), make(chan bool, 8), make(chan error, 8)}
}

func (g *gate) tool() saga.Definition {
	return saga.Flow[empty, string]{Info: saga.Info{Name: "gate"}, Run: func(r *saga.Run, _ empty) (string, error) {
		g.entered <- true
		select {
		case <-g.leave:
			return "left", nil
		case <-r.Done():
			g.stopped <- r.Err()
			return "", r.Err()
		}
	}}
}

// world records what effects did.
type world struct {
	mu   sync.Mutex
	done []string
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, what)
}

func (w *world) was() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.done, " ")
}

// tool holds something, asks, and holds something else, in a turn that may take
// long.
func (w *world) tool(g *gate) saga.Definition {
	effect := func(name string) *saga.Effect[empty, empty] {
		return &saga.Effect[empty, empty]{
			Name: name,
			Do:   func(context.Context, saga.Key, empty) (empty, error) { w.note("+" + name); return empty{}, nil },
			Undo: func(context.Context, saga.Performed[empty, empty]) error { w.note("-" + name); return nil },
		}
	}
	first, second := effect("first"), effect("second")
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: "hold", Asks: []steps.Question{legacyForm}, Effects: []saga.Declared{first, second}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Do(r, first, empty{}); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, legacyForm); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, second, empty{}); err != nil {
				return "", err
			}
			g.entered <- true
			select {
			case <-g.leave:
				return "held", nil
			case <-r.Done():
				return "", r.Err()
			}
		},
	}
}

// legacyPrompt and the resources after it can be sagas as well.
var legacyPrompt = saga.Prompt[wish, empty]{
	Machine: saga.Machine[wish, empty]{
		Info: saga.Info{Name: "greeting", Description: "Greets.", Asks: []steps.Question{legacyForm}},
		Start: func(t *saga.Turn[wish, empty]) (saga.Next, error) {
			return t.Ask("asked", legacyForm)
		},
		Steps: saga.Steps[wish, empty]{"asked": func(t *saga.Turn[wish, empty]) (saga.Next, error) {
			form, err := legacyForm.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: t.Args.Name + " greets " + form.Name}})
		}},
	},
	Complete: map[string]saga.Completer{"name": func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
		return []string{typed + "a", typed + "b"}, nil
	}},
}

type note struct {
	ID string `json:"id"`
}

var legacyNotes = saga.Resource[note, empty]{
	Machine: saga.Machine[note, empty]{
		Info: saga.Info{Name: "notes", Asks: []steps.Question{legacyForm}},
		Start: func(t *saga.Turn[note, empty]) (saga.Next, error) {
			switch t.Args.ID {
			case "gone":
				return nil, saga.ErrNotFound
			case "ask":
				return t.Ask("asked", legacyForm)
			}
			return t.Contents(content.ResourceContents{URI: "notes://" + t.Args.ID, MIMEType: "text/plain", Text: "note " + t.Args.ID})
		},
		Steps: saga.Steps[note, empty]{"asked": func(t *saga.Turn[note, empty]) (saga.Next, error) {
			form, err := legacyForm.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Contents(content.ResourceContents{URI: "notes://ask", Blob: []byte(form.Name)})
		}},
	},
	Template: "notes://{id}",
}

var legacyStatic = saga.Resource[empty, empty]{
	Machine: saga.Machine[empty, empty]{
		Info: saga.Info{Name: "static"},
		Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) {
			return t.Contents(content.ResourceContents{URI: "static://one", Text: "1"})
		},
	},
	URI:      "static://one",
	MIMEType: "text/plain",
}

// legacyDefinitions are all of the above that need no setting up.
func legacyDefinitions(more ...saga.Definition) []saga.Definition {
	return append([]saga.Definition{
		complextool.Tool, longtalk.Tool, legacyAsk, legacyTalk, legacyFlood, legacyContents, legacyList, legacySum, legacyAway,
		legacyPrompt, legacyNotes, legacyStatic,
	}, more...)
}
