package sagatest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Player plays tools. Its zero value is what [Play] uses.
type Player struct {
	// Client is what the client can do; zero means everything.
	Client steps.Features
	// Caller is who calls; zero is an anonymous client.
	Caller saga.Caller
	// Now is when the tool is called; the zero time means noon of 1 January 2026.
	Now time.Time
	// Pause is how long the client takes before each request; zero means a second.
	Pause time.Duration
	// Resends plays a client of MCP 2026-07-28, which sends the arguments in every
	// turn and only the latest answers. Tokens are then shorter.
	Resends bool
	// Parts plays a client that is given what the tool yields part by part, instead of all of
	// it in front of the result. Each part is a [Round].
	Parts bool
	// MaxRounds is how often the saga may be suspended; zero means eight times, with which every
	// client in use copes. MaxToken is how long a token may be, in characters; zero means that it
	// is not checked. A play that exceeds one fails.
	MaxRounds, MaxToken int
	// ID is the saga's id, from which keys, ids and random numbers are made; zero means
	// one that is the same in every play.
	ID saga.ID

	at    *sagahooks.Stage
	given []Answer
	done  []sagahooks.Performed
}

// Play runs a tool, a prompt or a resource from its call to its end. The client
// answers by the script; between two turns only the token survives, in every turn
// the tool is made anew from its definition. args are the arguments: a struct, a
// map, JSON as a json.RawMessage, or nil.
//
// Play fails the test if the script lacks an answer, or has one that was never asked
// for. About the result it says nothing: that is what the test is for.
func Play(t testing.TB, d saga.Definition, args any, script ...Answer) *Played {
	t.Helper()
	return Player{}.Play(t, d, args, script...)
}

// Play is like the function [Play].
func (p Player) Play(t testing.TB, d saga.Definition, args any, answers ...Answer) *Played {
	t.Helper()
	c := p.client(t, d, args, newCodec(t, 0))
	c.follow(newScript(p.answers(answers)))
	if err := p.stage(c); err != nil {
		t.Fatalf("sagatest: the play cannot start there: %v", err)
		return nil
	}
	played := c.run(t)
	played.Rounds = played.Rounds[c.before:]
	if text := c.script.leftover(); text != "" {
		t.Errorf("sagatest: %s", text)
	}
	for _, name := range slices.Sorted(maps.Keys(c.rig.world.stubs)) {
		if n := len(c.rig.world.stubs[name]); n > 0 {
			t.Errorf("sagatest: effect %q was given as performed, but the tool did not come to it %d of the times", name, n)
		}
	}
	checkCost(t, played.Rounds, p.MaxRounds, p.MaxToken)
	if failed := played.Err; failed != nil {
		t.Logf("sagatest: why the tool failed, which the client does not learn: %v", failed)
	}
	return played
}

// client sets up the server and its client.
func (p Player) client(t testing.TB, d saga.Definition, args any, seals *tokens.Codec) *client {
	t.Helper()
	if args == nil {
		args = struct{}{}
	}
	raw, err := encoded(args)
	if err != nil {
		t.Fatalf("sagatest: the arguments cannot be encoded: %v", err)
	}
	if d == nil {
		t.Fatalf("sagatest: there is no tool to play: the definition is nil")
	}
	tool, err := d.Compile()
	if err != nil {
		t.Fatalf("sagatest: the tool's definition is not valid: %v", err)
	}
	p.Pause = cmp.Or(p.Pause, time.Second)
	r := &rig{
		definition: d, tool: tool, args: raw, resends: p.Resends, parts: p.Parts, codec: seals, world: new(world),
		client: cmp.Or(p.Client, steps.AllFeatures()), id: cmp.Or(p.ID, saga.ID{0: 0x5a, 1: 0x6a, 15: 1}),
	}
	who := engine.Caller(p.Caller)
	if err := who.Check(); err != nil {
		t.Fatalf("sagatest: %v", err)
	}
	if who.Binding() != "" {
		r.caller = &who
	}
	now := cmp.Or(p.Now, time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC))
	r.clock.at = now.Add(-p.Pause) // the pause before the call itself does not count
	if tool.Waits() || tool.Tasks.Mode == engine.TasksRequired || tool.SingleUse == engine.SingleUseRequired {
		r.newLedger() // only servers with one take the tool
	}
	return &client{rig: r, pause: p.Pause, latest: p.Resends}
}

// mostTurnsOfPlay is when a saga that is played is taken for endless. A tool may
// pause often.
const mostTurnsOfPlay = 1000

// run drives the saga to its end.
func (c *client) run(t testing.TB) *Played {
	t.Helper()
	for range mostTurnsOfPlay {
		q, err := c.next()
		if errors.Is(err, errLeaves) {
			return c.played(c.last)
		}
		if err != nil {
			t.Fatalf("sagatest: %v", err)
		}
		rep := c.send(q)
		if c.take(q, rep); rep.err != nil || rep.ended {
			return c.played(rep)
		}
	}
	t.Fatalf("sagatest: the saga has not ended after %d turns.\n  what to do: let the tool give up at some time, or take away what Always answers", mostTurnsOfPlay)
	return nil
}

// usualRounds is as many rounds as every client in use goes through with.
const usualRounds = 8

// checkCost fails the test if the saga was suspended too often, or a token is too long.
func checkCost(t testing.TB, rounds []Round, maxRounds, maxToken int) {
	t.Helper()
	for i, r := range rounds {
		if maxToken > 0 && len(r.Token) > maxToken {
			t.Errorf("sagatest: the token of round %d has %d characters; MaxToken allows %d.\n  what to do: keep less in the state (in a flow: ask and do less, or use a Machine), or a reference to what is stored elsewhere", i+1, len(r.Token), maxToken)
			break
		}
	}
	switch n := len(rounds); {
	case maxRounds > 0 && n > maxRounds:
		t.Errorf("sagatest: the tool asked in %d rounds; MaxRounds allows %d.\n  what to do: ask several questions at once", n, maxRounds)
	case maxRounds == 0 && n > usualRounds:
		t.Errorf("sagatest: the tool asked in %d rounds; many clients give up after %d to 10.\n  what to do: ask several questions at once, or set MaxRounds to say that this is meant", n, usualRounds)
	}
}

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
	stage := *p.at
	stage.ID, stage.Arguments, stage.Effects = c.rig.newID(), c.rig.args, p.done
	for _, a := range p.given {
		asked := Asked{Step: steps.Step{ID: a.question}, Question: a.question}
		if a = a.decided(asked); a.leaves {
			return fmt.Errorf("question %q has no answer: a client that leaves does not come to the middle", asked.ID)
		}
		given, err := a.to(asked)
		if err != nil {
			return err
		}
		stage.Answers = append(stage.Answers, given)
	}
	pos, err := c.rig.tool.Stage(stage)
	if err != nil {
		return err
	}
	c.last, err = c.rig.sealed(pos)
	return err
}
