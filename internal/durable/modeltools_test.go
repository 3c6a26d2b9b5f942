package durable_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type trip struct {
	Task  string `json:"task"`
	Fail  bool   `json:"fail"`
	Final bool   `json:"final"` // there is no way back behind "b"
}

func (in trip) hold(what string) hold { return hold{in.Task, what, in.Final && what == "b"} }

type tripState struct {
	Seen []string `json:"seen"`
}

type word struct {
	Word string `json:"word"`
}

var (
	askFirst = &steps.Form[word]{ID: "first", Message: "First?"}
	askLeft  = &steps.Form[word]{ID: "left", Message: "Left?"}
	askRight = &steps.Form[word]{ID: "right", Message: "Right?"}
	arrived  = &steps.Event[word]{ID: "arrived", Message: "Waiting for it to arrive.", Within: 48 * time.Hour}
)

// machine and flow are the tools of the model, in a revision. Both hold three things, ask
// three questions, sleep, and say what they have heard.
func (c *clerk) machine(revision uint32) saga.Definition {
	type turn = saga.Turn[trip, tripState]
	effect := &saga.Effect[hold, string]{Name: "hold", Do: c.do, Undo: c.undo}
	do := func(t *turn, what string) error {
		got, err := saga.Do(t, effect, t.Args.hold(what))
		t.State.Seen = append(t.State.Seen, got)
		return err
	}
	return saga.Machine[trip, tripState]{
		Info:     saga.Info{Name: "machine", Tasks: saga.Tasks{Mode: saga.TasksOptional}, Revision: revision, Asks: []steps.Question{askFirst, askLeft, askRight, arrived}, Effects: []saga.Declared{effect}},
		Upgrades: upgrades(revision),
		Start: func(t *turn) (saga.Next, error) {
			if err := do(t, "a"); err != nil {
				return nil, err
			}
			t.Progress(1, 4, "begun")
			return t.Goto("ask")
		},
		Steps: saga.Steps[trip, tripState]{
			"ask": func(t *turn) (saga.Next, error) { return t.Ask("one", askFirst) },
			"one": func(t *turn) (saga.Next, error) {
				w, err := askFirst.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.Seen = append(t.State.Seen, w.Word)
				c.sleeps(t.Args.Task)
				c.pause()
				if err := do(t, "b"); err != nil {
					return nil, err
				}
				if err := c.expects(t, t.Args.Task); err != nil {
					return nil, err
				}
				return t.Sleep(time.Hour, "slept")
			},
			"slept": func(t *turn) (saga.Next, error) {
				c.wakes(t.Args.Task)
				t.Progress(2, 4, "slept")
				return t.Ask("two", askLeft, askRight, arrived)
			},
			"two": func(t *turn) (saga.Next, error) {
				for _, q := range []*steps.Form[word]{askLeft, askRight} {
					w, err := q.Answer(t)
					if err != nil {
						return nil, err
					}
					t.State.Seen = append(t.State.Seen, w.Word)
				}
				if _, err := arrived.Answer(t); err != nil {
					return nil, err
				}
				if err := do(t, "c"); err != nil {
					return nil, err
				}
				if t.Args.Fail {
					return nil, saga.Failf("as asked")
				}
				return t.Textf("%s", strings.Join(t.State.Seen, " "))
			},
		},
	}
}

func upgrades(revision uint32) map[uint32]saga.Upgrade[tripState] {
	if revision == 1 {
		return nil
	}
	return map[uint32]saga.Upgrade[tripState]{1: saga.From(func(s tripState) (tripState, error) { return s, nil })}
}

func (c *clerk) flow(revision uint32) saga.Definition {
	effect := &saga.Effect[hold, string]{Name: "hold", Do: c.do, Undo: c.undo}
	return saga.Flow[trip, string]{
		Info:   saga.Info{Name: "flow", Tasks: saga.Tasks{Mode: saga.TasksOptional}, Revision: revision, Asks: []steps.Question{askFirst, askLeft, askRight, arrived}, Effects: []saga.Declared{effect}},
		Oldest: 1,
		Run: func(r *saga.Run, in trip) (string, error) {
			var seen []string
			do := func(what string) error {
				got, err := saga.Do(r, effect, in.hold(what))
				seen = append(seen, got)
				return err
			}
			ask := func(q *steps.Form[word]) error {
				w, err := saga.Ask(r, q)
				seen = append(seen, w.Word)
				return err
			}
			if err := do("a"); err != nil {
				return "", err
			}
			if err := ask(askFirst); err != nil {
				return "", err
			}
			c.sleeps(in.Task)
			c.pause()
			if err := do("b"); err != nil {
				return "", err
			}
			if err := c.expects(r, in.Task); err != nil {
				return "", err
			}
			if err := r.Sleep(time.Hour); err != nil {
				return "", err
			}
			c.wakes(in.Task)
			if err := ask(askLeft); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, arrived); err != nil {
				return "", err
			}
			if err := ask(askRight); err != nil {
				return "", err
			}
			if err := do("c"); err != nil {
				return "", err
			}
			if in.Fail {
				return "", saga.Failf("as asked")
			}
			return strings.Join(seen, " "), nil
		},
	}
}

// clerk is the way of a server to the desk. Much goes wrong on it.
type clerk struct {
	*world
	*server
}

// expects has what a task waits for arrive, soon.
func (c *clerk) expects(ctx saga.Context, id string) error {
	handle, err := saga.Handle(ctx, arrived)
	if err == nil {
		c.arrives(id, handle)
	}
	return err
}

// luck is what happens once in n times.
func (c *clerk) luck(n int) bool { return c.intN(rarely(n, c.harsh)) == 0 }

func (c *clerk) do(ctx context.Context, key saga.Key, in hold) (got string, err error) {
	c.seen.note(in.Task, "%s: does %s %.4s", c.link, in.What, key)
	defer func() { c.seen.note(in.Task, "%s: has done %s %.4s: %v", c.link, in.What, key, err) }()
	if c.luck(40) {
		c.seen.note(in.Task, "is to be cancelled")
		c.cancel(in.Task)
	}
	if c.luck(25) {
		c.link.cut() // the server dies, but its call is on the way
	}
	if c.luck(25) {
		c.link.leaves.Store(true)
		c.clients.Go(c.stop)
	}
	c.pause()
	switch {
	case c.luck(25):
		return "", errors.New("it has not come to the desk")
	case !c.desk.knows(key) && c.luck(20):
		// An earlier call may be on the way still, of a server that was taken for dead.
		return "", saga.Refused(errors.New("not today"))
	}
	got, err = c.desk.do(ctx, key, in)
	if c.luck(25) {
		c.link.cut()
	}
	if err == nil && c.luck(25) {
		return "", errors.New("the response is lost")
	}
	return got, err
}

func (c *clerk) undo(ctx context.Context, p saga.Performed[hold, string]) (err error) {
	c.seen.note(p.In.Task, "%s: undoes %s %.4s (%v)", c.link, p.In.What, p.Key, p.Known)
	defer func() { c.seen.note(p.In.Task, "%s: has undone %s: %v", c.link, p.In.What, err) }()
	c.pause()
	if ctx.Err() != nil { // it was given up: nobody hears how it ends
		c.desk.doubt(p.Key)
	}
	if c.luck(10) {
		c.link.cut()
	}
	if c.luck(10) {
		c.desk.doubt(p.Key)
		return errors.New("try again")
	}
	return c.desk.undo(ctx, p)
}

// pause takes time: mostly not much, now and then more than a lease.
func (c *clerk) pause() {
	switch c.intN(rarely(40, c.harsh)) {
	case 0:
		time.Sleep(10*time.Second + time.Duration(c.intN(30_000))*time.Millisecond)
	case 1, 2, 3, 4:
		time.Sleep(time.Duration(c.intN(3000)) * time.Millisecond)
	default:
		time.Sleep(time.Duration(c.intN(20)) * time.Millisecond)
	}
}
