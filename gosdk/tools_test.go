package gosdk_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// none is for tools without arguments or state.
type none struct{}

type word struct {
	Word string `json:"word"`
}

// words is a form for each round.
func words(n int) (forms []*steps.Form[word]) {
	for i := range n {
		forms = append(forms, &steps.Form[word]{ID: fmt.Sprintf("word%d", i+1), Message: fmt.Sprintf("Word %d?", i+1)})
	}
	return forms
}

// talk asks for n words, one after the other.
func talk(n int) saga.Definition {
	forms := words(n)
	var questions []steps.Question
	for _, f := range forms {
		questions = append(questions, f)
	}
	return saga.Flow[none, string]{Info: saga.Info{Name: "talk", Asks: questions}, Run: func(r *saga.Run, _ none) (string, error) {
		var said []string
		for _, f := range forms {
			w, err := saga.Ask(r, f)
			if err != nil {
				return "", err
			}
			said = append(said, w.Word)
		}
		return strings.Join(said, " "), nil
	}}
}

// rooms is what the effects of a tool change.
type rooms struct {
	mu   sync.Mutex
	held map[saga.Key]bool
	ever int
}

func (r *rooms) hold(k saga.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = make(map[saga.Key]bool)
	}
	r.held[k] = true
	r.ever++
}

func (r *rooms) release(k saga.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, k)
}

func (r *rooms) count() (held, ever int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held), r.ever
}

// requireReleased waits until a room was held and is no longer.
func (r *rooms) requireReleased(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { held, ever := r.count(); return held == 0 && ever == 1 }, time.Minute, time.Millisecond)
}

// requireHeld waits until a room is held.
func (r *rooms) requireHeld(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { held, _ := r.count(); return held == 1 }, time.Minute, time.Millisecond)
}

type sure struct {
	Sure bool `json:"sure"`
}

// book holds a room and asks whether the user is sure.
func (r *rooms) book() saga.Definition {
	ask := &steps.Form[sure]{ID: "sure", Message: "Sure?"}
	room := &saga.Effect[string, bool]{
		Name: "room",
		Do:   func(_ context.Context, k saga.Key, _ string) (bool, error) { r.hold(k); return true, nil },
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error { r.release(p.Key); return nil },
	}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "book", Asks: []steps.Question{ask}, Effects: []saga.Declared{room}},
		Run: func(run *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(run, room, "7"); err != nil {
				return "", err
			}
			form, err := saga.Ask(run, ask)
			if err != nil {
				return "", err
			}
			if !form.Sure {
				return "", saga.Failf("Not sure.")
			}
			return "yours", nil
		},
	}
}

// pages holds a room, gives a part of its result, and asks whether the user is sure.
func (r *rooms) pages() saga.Definition {
	flow := r.book().(saga.Flow[none, string])
	room, ask := flow.Effects[0].(*saga.Effect[string, bool]), flow.Asks[0].(*steps.Form[sure])
	flow.Yields, flow.Run = true, func(run *saga.Run, _ none) (string, error) {
		if _, err := saga.Do(run, room, "7"); err != nil {
			return "", err
		}
		if err := run.Yield(content.Textf("a part")); err != nil {
			return "", err
		}
		_, err := saga.Ask(run, ask)
		return "yours", err
	}
	return flow
}

// stay holds a room until the call is cancelled.
func (r *rooms) stay() saga.Definition {
	room := &saga.Effect[string, bool]{
		Name: "room",
		Do:   func(_ context.Context, k saga.Key, _ string) (bool, error) { r.hold(k); return true, nil },
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error { r.release(p.Key); return nil },
	}
	return saga.Flow[none, string]{Info: saga.Info{Name: "stay", Effects: []saga.Declared{room}}, Run: func(run *saga.Run, _ none) (string, error) {
		if _, err := saga.Do(run, room, "7"); err != nil {
			return "", err
		}
		<-run.Done()
		return "", run.Err()
	}}
}

// answering is a client whose user fills in each form.
func answering(fill func(message string) *mcp.ElicitResult) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return fill(r.Params.Message), nil
	}}
}

// speaking says w1 to the first question, and so on.
func speaking() *mcp.ClientOptions {
	n := 0
	return answering(func(string) *mcp.ElicitResult {
		n++
		return accept(object{"word": fmt.Sprintf("w%d", n)})
	})
}

func accept(content object) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: content}
}
