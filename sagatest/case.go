package sagatest

import (
	"slices"
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Case is a tool with a script that leads through it, for [Sweep] and [Journal].
type Case struct {
	// Tool is what is swept. If it acts on something that remembers, use New.
	Tool saga.Definition
	// New makes the tool together with the world it acts on. It is called for every
	// scenario and must return a world in which nothing has happened yet.
	New func(t testing.TB) Subject
	// Args are the tool's arguments; see [Play].
	Args any
	// Script is how the client answers when nothing goes wrong.
	Script []Answer
	// Fails says that the script leads to a failure, such as a refusal by the user. In a
	// [Journal], recorded sagas must then fail as well, and leave nothing behind.
	Fails bool

	// Check looks at every ending; see [Subject].
	Check func(t testing.TB, p *Played)
	// Harmless names effects that may be left behind, as what they do expires by itself. They need
	// no Undo and may come before the first question, as may those that are ReadOnly.
	Harmless []string
	// Same returns what of a good ending must be the same in all scenarios; nil means
	// the whole result. Set it if results hold times, or numbers that others count.
	Same func(p *Played) string
	// Skip leaves out kinds of scenarios by their names, which [Sweep] lists; say why
	// beside it.
	Skip []string

	// Journal names the case's journal, for tools with several scripts: its directory is
	// <tool>@<name>. Without a name, a case with Fails has the journal "fails".
	Journal string
	// Retired is for [Journal]: sagas of revisions before it are no longer resumed but
	// undone.
	Retired uint32

	// Client is what the client can do; zero means everything. Caller is who calls; see [Player].
	Client steps.Features
	Caller saga.Caller
	// Parts: the client gets what the tool yields part by part; see [Player].
	Parts bool
	// Now is when the tool is called; see [Player].
	Now time.Time
	// MaxRounds and MaxToken are what the saga may cost; see [Player].
	MaxRounds, MaxToken int
	// ID is the saga's id; see [Player].
	ID saga.ID
}

// Subject is a tool and the world it acts on, made for one scenario.
type Subject struct {
	// Tool is the tool.
	Tool saga.Definition
	// World returns what the world looks like now, as far as it matters: the rooms
	// that are held, the payments made. It must encode to JSON; nil slices and maps
	// count as empty ones. With it the sweep checks by itself that a saga is done as a
	// whole or undone as a whole. It is called often, and not while an effect is
	// performed. It may be nil.
	World func() any
	// Check is for what else must be true at the end of every scenario. A fork ends
	// twice; Check gets the ending that the world agrees with, and none without World.
	// It may be nil.
	Check func(t testing.TB, p *Played)
}

func (c *Case) subject(t testing.TB) Subject {
	if c.New != nil {
		return c.New(t)
	}
	return Subject{Tool: c.Tool}
}

// harmless reports whether what a call does may be left behind.
func (c *Case) harmless(call *Call) bool {
	return call.hook.ReadOnly || slices.Contains(c.Harmless, call.Effect)
}

func (c *Case) same(p *Played) string {
	if c.Same != nil && p.Good() {
		return c.Same(p)
	}
	return p.asJSON()
}
