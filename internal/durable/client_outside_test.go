package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// outside is where effects happen: once per key, and never after they were undone.
type outside struct {
	mu     sync.Mutex
	done   map[saga.Key]string // what is done
	undone map[saga.Key]bool
	calls  []string
	// at is called in an effect, before it happens and (after) when it has.
	at func(ctx context.Context, effect string, after bool) error
	// unwilling are effects that cannot be undone at present.
	unwilling map[string]bool
}

func newOutside() *outside {
	return &outside{done: map[saga.Key]string{}, undone: map[saga.Key]bool{}, unwilling: map[string]bool{}}
}

// things lists what is done.
func (w *outside) things() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range w.done {
		list = append(list, what)
	}
	return list
}

func (w *outside) do(ctx context.Context, name string, key saga.Key) error {
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	if at != nil {
		if err := at(ctx, name, false); err != nil {
			return err
		}
	}
	if dead(ctx) {
		return errDead
	}
	w.mu.Lock()
	w.calls = append(w.calls, name)
	if w.undone[key] {
		w.mu.Unlock()
		return saga.Refused(errors.New("it was undone"))
	}
	w.done[key] = name
	w.mu.Unlock()
	if at != nil {
		return at(ctx, name, true)
	}
	return nil
}

func (w *outside) undo(ctx context.Context, name string, key saga.Key) error {
	if dead(ctx) {
		return errDead
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "undo "+name)
	if w.unwilling[name] {
		return errors.New("not now")
	}
	delete(w.done, key)
	w.undone[key] = true
	return nil
}

func (w *outside) effect(name string) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: name, Tries: 1,
		Do: func(ctx context.Context, key saga.Key, in string) (string, error) {
			return string(key), w.do(ctx, name, key)
		},
		Undo: func(ctx context.Context, p saga.Performed[string, string]) error { return w.undo(ctx, name, p.Key) },
	}
}

type (
	tripArgs struct {
		To    string `json:"to"`
		Early bool   `json:"early,omitempty"` // hold before asking
	}
	tripForm struct {
		OK bool `json:"ok"`
	}
)

// trip is a tool that holds a room (in its first turn, or its second), asks whether to pay,
// and pays.
func (w *outside) trip(change func(*saga.Info)) saga.Definition {
	where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	pay := &steps.Form[tripForm]{ID: "pay", Message: "Pay?"}
	hold, charge := w.effect("hold"), w.effect("charge")
	info := saga.Info{Name: "trip", Asks: []steps.Question{where, pay}, Effects: []saga.Declared{hold, charge}}
	if change != nil {
		change(&info)
	}
	return saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
		if in.Early {
			if _, err := saga.Do(r, hold, in.To); err != nil {
				return "", err
			}
		}
		if _, err := saga.Ask(r, where); err != nil {
			return "", err
		}
		if !in.Early {
			if _, err := saga.Do(r, hold, in.To); err != nil {
				return "", err
			}
		}
		if form, err := saga.Ask(r, pay); err != nil || !form.OK {
			return "not booked", err
		}
		if _, err := saga.Do(r, charge, in.To); err != nil {
			return "", err
		}
		return "booked", nil
	}}
}

// sureAsk asks whether the user is sure, and sure is an answer.
var sureAsk = &steps.Form[struct {
	Sure bool `json:"sure"`
}]{ID: "sure", Message: "Sure?"}

func sure(ok bool) []steps.Answer {
	return []steps.Answer{{StepID: "sure", Result: fmt.Appendf(nil, `{"action":"accept","content":{"sure":%v}}`, ok)}}
}
