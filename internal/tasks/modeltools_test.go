package tasks_test

import (
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
		Info:     saga.Info{Name: "machine", Tasks: saga.Tasks{Mode: saga.TasksOptional}, Revision: revision, Asks: []steps.Question{askFirst, askLeft, askRight}, Effects: []saga.Declared{effect}},
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
				return t.Sleep(time.Hour, "slept")
			},
			"slept": func(t *turn) (saga.Next, error) {
				c.wakes(t.Args.Task)
				t.Progress(2, 4, "slept")
				return t.Ask("two", askLeft, askRight)
			},
			"two": func(t *turn) (saga.Next, error) {
				for _, q := range []*steps.Form[word]{askLeft, askRight} {
					w, err := q.Answer(t)
					if err != nil {
						return nil, err
					}
					t.State.Seen = append(t.State.Seen, w.Word)
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
		Info:   saga.Info{Name: "flow", Tasks: saga.Tasks{Mode: saga.TasksOptional}, Revision: revision, Asks: []steps.Question{askFirst, askLeft, askRight}, Effects: []saga.Declared{effect}},
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
			if err := r.Sleep(time.Hour); err != nil {
				return "", err
			}
			c.wakes(in.Task)
			if err := ask(askLeft); err != nil {
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
