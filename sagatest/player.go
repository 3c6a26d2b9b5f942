package sagatest

import (
	"encoding/json"
	"errors"
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
	raw, err := encodeArgs(args)
	if err != nil {
		t.Fatalf("sagatest: the arguments cannot be encoded: %v", err)
	}
	if p.Client == (steps.Features{}) {
		p.Client = steps.AllFeatures()
	}
	if p.Now.IsZero() {
		p.Now = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	}
	if p.Pause == 0 {
		p.Pause = time.Second
	}
	if d == nil {
		t.Fatalf("sagatest: there is no tool to play: the definition is nil")
	}
	tool, err := d.Compile()
	if err != nil {
		t.Fatalf("sagatest: the tool's definition is not valid: %v", err)
	}
	if p.ID == (saga.ID{}) {
		p.ID = saga.ID{0: 0x5a, 1: 0x6a, 15: 1}
	}
	r := &rig{definition: d, args: raw, codec: seals, client: p.Client, resends: p.Resends, parts: p.Parts, id: p.ID, tool: tool, world: new(world)}
	r.clock.at = p.Now.Add(-p.Pause) // the pause before the call itself does not count
	if demandsLedger(tool) {
		r.newLedger()
	}
	return &client{rig: r, pause: p.Pause, latest: p.Resends}
}

// demandsLedger reports whether only servers with a ledger take the tool.
func demandsLedger(p *engine.Program) bool {
	return p.Waits() || p.Tasks.Mode == engine.TasksRequired || p.SingleUse == engine.SingleUseRequired
}

func encodeArgs(args any) (json.RawMessage, error) {
	switch a := args.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		return a, nil
	}
	return json.Marshal(args)
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
