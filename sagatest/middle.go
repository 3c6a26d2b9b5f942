package sagatest

import (
	"encoding/json"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Given is what is there already when a play starts in the middle: an [Answer], or
// an effect that was [Performed].
type Given interface{ isGiven() }

func (Answer) isGiven() {}

type performed struct {
	effect        string
	input, output any
}

func (performed) isGiven() {}

// Performed says that an effect was done before the play starts, with that input
// and output: values of the effect's types, or such as encode to the same JSON. The
// input is needed with [At] only, where it is what Undo gets.
func Performed(effect string, input, output any) Given { return performed{effect, input, output} }

// At starts a play of a machine in one of its step functions, with a state, and
// with the answers and effects it finds there:
//
//	sagatest.At("confirmed", state{City: "Rome"}, sagatest.Accept("confirm", sure{true})).Play(t, tool, args)
//
// The state is of the machine's own type, or nil for its zero value.
func At(step string, state any, given ...Given) Player { return Player{}.At(step, state, given...) }

// At is like the function [At].
func (p Player) At(step string, state any, given ...Given) Player {
	p.at, p.given = &sagahooks.Stage{Step: step, State: state}, given
	return p
}

// After starts a play behind the given answers: the tool runs up to where it needs
// others, without asking the script and without calling the effects that are given
// as performed. It is how to start a flow in the middle, whose state is what it was
// answered and has done:
//
//	sagatest.After(sagatest.Accept("dates", june), sagatest.Performed("hold-room", nil, room{7})).Play(t, tool, args, …)
func After(given ...Given) Player { return Player{}.After(given...) }

// After is like the function [After].
func (p Player) After(given ...Given) Player {
	p.given = given
	return p
}

// prepare puts what is given before the script, and returns how many answers that
// are.
func (p Player) prepare(script []Answer) (all []Answer, prepared int) {
	if p.at != nil {
		return script, 0
	}
	for _, g := range p.given {
		if a, ok := g.(Answer); ok {
			all = append(all, a)
		}
	}
	return append(all, script...), len(all)
}

// isPrepared reports whether all of the questions have given answers.
func (p Player) isPrepared(list []steps.Step) bool {
	given := make(map[string]int)
	for _, g := range p.given {
		if a, ok := g.(Answer); ok {
			given[a.question]++
		}
	}
	for _, s := range list {
		a := asked(s)
		if a.Again >= max(given[a.Question], given[ident.Base(a.Question)]) {
			return false
		}
	}
	return true
}

// stage puts the saga where the play starts.
func (p Player) stage(c *client) error {
	var effects []sagahooks.Performed
	for _, g := range p.given {
		e, ok := g.(performed)
		if !ok {
			continue
		}
		for what, v := range map[string]any{"input": e.input, "output": e.output} {
			if _, err := json.Marshal(v); err != nil {
				return fmt.Errorf("the %s of effect %q: %w", what, e.effect, err)
			}
		}
		effects = append(effects, sagahooks.Performed{Effect: e.effect, Input: e.input, Output: e.output})
	}
	if p.at == nil {
		c.rig.watch.stubs = make(map[string][]sagahooks.Performed)
		for _, e := range effects {
			c.rig.watch.stubs[e.Effect] = append(c.rig.watch.stubs[e.Effect], e)
		}
		return nil
	}
	tool, err := c.rig.definition.Compile()
	if err != nil {
		return err
	}
	stage := *p.at
	stage.ID, stage.Arguments, stage.Effects = c.rig.newID(), c.rig.args, effects
	for _, g := range p.given {
		a, ok := g.(Answer)
		if !ok {
			continue
		}
		if a.reply == nil {
			return fmt.Errorf("question %q has no answer: a client that leaves does not come to the middle", a.question)
		}
		given, err := a.reply(Asked{Step: steps.Step{ID: a.question}, Question: a.question})
		if err != nil {
			return fmt.Errorf("the answer to %q: %w", a.question, err)
		}
		given.StepID = a.question
		stage.Answers = append(stage.Answers, given)
	}
	pos, err := tool.Stage(stage)
	if err != nil {
		return err
	}
	token, err := c.rig.sealed(pos)
	c.last = reply{token: token, position: pos}
	return err
}
