// Package first has tools that act before they ask, and some that do not.
package first

import (
	"context"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

type hold struct {
	ID string `json:"id"`
}

type turn = saga.Turn[form, hold]

func take(context.Context, saga.Key, string) (hold, error) { return hold{}, nil }

func release(context.Context, saga.Performed[string, hold]) error { return nil }

var (
	askSure = &steps.Form[form]{ID: "sure", Message: "Sure?"}
	room    = &saga.Effect[string, hold]{Name: "room", Do: take, Undo: release}
	// price is an effect only so that it is looked up once.
	price = &saga.Effect[string, hold]{Name: "price", Do: take}
	// seat gets its Undo below.
	seat = &saga.Effect[string, hold]{Name: "seat", Do: take}
)

func init() { seat.Undo = release }

var asks, effects = []steps.Question{askSure}, []saga.Declared{room, price, seat}

var literal = saga.Flow[form, string]{
	Info: saga.Info{Name: "literal", Asks: asks, Effects: effects},
	Run: func(r *saga.Run, _ form) (string, error) {
		if _, err := saga.Do(r, room, "single"); err != nil { // want `an effect comes before the first question: if the first response is lost`
			return "", err
		}
		_, err := saga.Ask(r, askSure)
		return "done", err
	},
}

var function = saga.Flow[form, string]{Info: saga.Info{Name: "function", Asks: asks, Effects: effects}, Run: sometimes}

func sometimes(r *saga.Run, in form) (string, error) {
	if in.Sure {
		if err := holdBoth(r); err != nil { // want `an effect comes before the first question`
			return "", err
		}
	}
	err := r.AskAll(askSure)
	return "done", err
}

func holdBoth(r *saga.Run) error {
	for _, e := range []*saga.Effect[string, hold]{room, seat} {
		if _, err := saga.Do(r, e, "one"); err != nil {
			return err
		}
	}
	return nil
}

type tool struct{ room *saga.Effect[string, hold] }

func (t tool) run(r *saga.Run, _ form) (string, error) {
	if _, err := saga.Do(r, t.room, "single"); err != nil { // want `an effect comes before the first question`
		return "", err
	}
	_, err := saga.Ask(r, askSure)
	return "done", err
}

func newTool() saga.Definition {
	f := saga.Flow[form, string]{Info: saga.Info{Name: "method", Asks: asks, Effects: effects}}
	f.Run = tool{room}.run
	return f
}

var late = saga.Flow[form, string]{
	Info: saga.Info{Name: "late", Asks: asks, Effects: effects},
	Run: func(r *saga.Run, _ form) (string, error) {
		if _, err := saga.Do(r, price, "single"); err != nil {
			return "", err
		}
		_, err := saga.Do(r, seat, "1A") // want `an effect comes before the first question`
		if err != nil {
			return "", err
		}
		_, err = saga.Ask(r, askSure)
		return "done", err
	},
}

var machine = saga.Machine[form, hold]{
	Info: saga.Info{Name: "machine", Asks: asks, Effects: effects},
	Start: func(t *turn) (saga.Next, error) {
		if _, err := saga.Do(t, room, "single"); err != nil { // want `an effect comes before the first question`
			return nil, err
		}
		return t.Ask("sure", askSure)
	},
	Steps: saga.Steps[form, hold]{"sure": func(t *turn) (saga.Next, error) {
		if _, err := saga.Do(t, room, "double"); err != nil {
			return nil, err
		}
		return t.Textf("done")
	}},
}

// What follows is as it should be.

var askedFirst = saga.Flow[form, string]{
	Info: saga.Info{Name: "asked_first", Asks: asks, Effects: effects},
	Run: func(r *saga.Run, in form) (string, error) {
		if _, err := saga.Do(r, price, "single"); err != nil {
			return "", err
		}
		if err := confirm(r, in); err != nil {
			return "", err
		}
		if err := holdBoth(r); err != nil {
			return "", err
		}
		_, err := saga.Ask(r, askSure)
		return "done", err
	},
}

func confirm(r *saga.Run, in form) error {
	if in.Sure {
		return nil
	}
	return r.AskAll(askSure)
}

// It asks nothing, so its first response is its last.
var ordinary = saga.Flow[form, string]{
	Info: saga.Info{Name: "ordinary", Effects: effects},
	Run:  func(r *saga.Run, _ form) (string, error) { return "done", holdBoth(r) },
}

var ends = saga.Machine[form, hold]{
	Info: saga.Info{Name: "ends", Asks: asks, Effects: effects},
	Start: func(t *turn) (saga.Next, error) {
		if t.Args.Sure {
			if _, err := saga.Do(t, room, "single"); err != nil {
				return nil, err
			}
			return t.Textf("done")
		}
		return t.Ask("sure", askSure)
	},
}

// The server goes on with a task, whoever hears of it.
var always = saga.Machine[form, hold]{
	Info: saga.Info{Name: "always", Asks: asks, Effects: effects, Tasks: saga.Tasks{Mode: saga.TasksRequired}},
	Start: func(t *turn) (saga.Next, error) {
		if _, err := saga.Do(t, room, "single"); err != nil {
			return nil, err
		}
		return t.Ask("sure", askSure)
	},
}
