package sagatest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// At starts the play of a machine in one of its step functions, with a state, and
// with the answers it finds there:
//
//	sagatest.Player{}.At("confirmed", state{City: "Rome"}, sagatest.Accept("confirm", sure{true})).Play(t, tool, args)
//
// The state is of the machine's own type, or nil for its zero value. [Player.Performed]
// says what the saga has done before.
func (p Player) At(step string, state any, answers ...Answer) Player {
	p.at, p.given = &sagahooks.Stage{Step: step, State: state}, answers
	return p
}

// After starts the play behind the given answers: the tool runs up to where it needs
// others, without asking the script. It is how to start a flow in the middle, whose
// state is what it was answered and has done:
//
//	sagatest.Player{}.After(sagatest.Accept("dates", june)).Performed("hold-room", nil, room{7}).Play(t, tool, args, …)
func (p Player) After(answers ...Answer) Player {
	p.at, p.given = nil, answers
	return p
}

// Performed says that an effect was done before the play starts, so that it is not
// called, with that input and output: values of the effect's types, or such as encode to
// the same JSON. The input is needed with [Player.At] only, where it is what Undo gets.
// Effects are given in the order in which they were done.
func (p Player) Performed(effect string, input, output any) Player {
	p.done = append(slices.Clip(p.done), sagahooks.Performed{Effect: effect, Input: input, Output: output})
	return p
}

// answers are the script behind what is given.
func (p Player) answers(script []Answer) []Answer {
	if p.at != nil {
		return script
	}
	all := slices.Clone(p.given)
	for i := range all {
		all[i].given = true
	}
	return append(all, script...)
}

// stage puts the saga where the play starts.
func (p Player) stage(c *client) error {
	for _, e := range p.done {
		for what, v := range map[string]any{"input": e.Input, "output": e.Output} {
			if _, err := json.Marshal(v); err != nil {
				return fmt.Errorf("the %s of effect %q: %w", what, e.Effect, err)
			}
		}
	}
	if p.at == nil {
		c.rig.world.stubs = make(map[string][]sagahooks.Performed)
		for _, e := range p.done {
			c.rig.world.stubs[e.Effect] = append(c.rig.world.stubs[e.Effect], e)
		}
		return nil
	}
	tool, err := c.rig.definition.Compile()
	if err != nil {
		return err
	}
	stage := *p.at
	stage.ID, stage.Arguments, stage.Effects = c.rig.newID(), c.rig.args, p.done
	for _, a := range p.given {
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
	c.last, err = c.rig.sealed(pos)
	return err
}
