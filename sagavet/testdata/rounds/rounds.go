// Package rounds has flows that ask too often, and some that do not.
package rounds

import (
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

var askSure = &steps.Form[form]{ID: "sure", Message: "Sure?"}

func three(r *saga.Run) error {
	if _, err := saga.Ask(r, askSure); err != nil {
		return err
	}
	if err := r.AskAll(askSure); err != nil {
		return err
	}
	return r.AskAll(askSure)
}

func nine(r *saga.Run) error {
	if err := three(r); err != nil {
		return err
	}
	again := func() error { return three(r) }
	if err := again(); err != nil {
		return err
	}
	return three(r) // want `this flow asks in up to 9 rounds, and clients give up after 8. Ask several questions at once`
}

func ten(r *saga.Run) error {
	for range 10 {
		if err := r.AskAll(askSure); err != nil { // want `this flow asks in up to 10 rounds`
			return err
		}
	}
	return nil
}

func twelve(r *saga.Run) error {
	for i := 1; i <= 4; i++ {
		if err := three(r); err != nil { // want `this flow asks in up to 12 rounds`
			return err
		}
	}
	return nil
}

func forEver(r *saga.Run) error {
	for { // want `nothing bounds how often this loop asks, and clients give up after 8 rounds. Count the rounds`
		f, err := saga.Ask(r, askSure)
		if err != nil {
			return err
		}
		if f.Sure {
			return nil
		}
	}
}

func while(r *saga.Run) error {
	sure := false
	for !sure { // want `nothing bounds how often this loop asks`
		f, err := saga.Ask(r, askSure)
		if err != nil {
			return err
		}
		sure = f.Sure
	}
	return nil
}

// What follows is as it should be.

func eight(r *saga.Run, way int) error {
	for range 2 {
		if err := three(r); err != nil {
			return err
		}
	}
	switch way {
	case 0:
		if err := r.AskAll(askSure); err != nil {
			return err
		}
		return r.AskAll(askSure)
	case 1:
		return r.AskAll(askSure)
	}
	if err := r.AskAll(askSure); err != nil {
		return err
	}
	return r.AskAll(askSure, askSure.Nth(1))
}

func bounded(r *saga.Run, names []string) error {
	for round := 1; ; round++ {
		f, err := saga.Ask(r, askSure)
		if err != nil {
			return err
		}
		if f.Sure || round == 5 {
			break
		}
	}
	for range names {
		if err := r.AskAll(askSure); err != nil {
			return err
		}
	}
	return nil
}

func callsTooMuch(r *saga.Run) error {
	return nine(r) // said there
}
