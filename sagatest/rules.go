package sagatest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
)

// inspect checks what must be true of every response.
func (x *trial) inspect(rep reply) {
	if rep.cut {
		return
	}
	if b, ok := mistake(cmp.Or(rep.err, rep.Err)); ok {
		x.breaks(b)
	}
	if len(rep.Reworded) > 0 {
		x.breaks(broken{"a flow does the same each time it runs", "",
			fmt.Sprintf("question %q is asked anew, as it has other words now than when it was answered", rep.Reworded[0]),
			"let the words depend on nothing but the arguments, the answers, what effects returned, and the Run: r.Now(), r.NewID(), r.Rand(); do not range over a map"})
	}
	w := x.rig.world
	if rep.Token != "" {
		for _, c := range w.outside {
			if c.turn == w.last {
				x.breaks(broken{"until its last turn, a saga acts by effects only", "",
					fmt.Sprintf("the world changed in turn %d, outside of Do and Undo of any effect, and then the saga was suspended:%s", c.turn, differ(c.before, c.after)),
					"make it an effect, with what reverses it as the effect's Undo. If it is such a reversal in a defer: a defer also runs when the saga is only suspended to wait for an answer, so leave undoing to the effects"})
				break
			}
		}
	}
	if len(w.wrote) > 0 {
		c := w.wrote[0]
		x.breaks(broken{"an effect that is ReadOnly changes nothing", c.effect,
			fmt.Sprintf("the world changed in turn %d, in effect %q:%s", c.turn, c.effect, differ(c.before, c.after)),
			"take ReadOnly away, and give the effect an Undo"})
	}
	if len(w.late) > 0 {
		x.breaks(broken{"a flow that has asked returns at once", w.late[0],
			fmt.Sprintf("effect %q was asked for after the flow had suspended; the engine did not perform it", w.late[0]),
			"return every error of saga.Ask, r.AskAll and saga.Do where you get it; and perform no effect in a defer, which also runs when the saga is only suspended"})
		w.late = nil
	}
	x.leaks(rep)
}

// leaks checks that no secret of a state is shown to the client.
func (x *trial) leaks(rep reply) {
	if rep.Position != nil {
		x.secrets = append(x.secrets, secretValues(rep.Position.Encode().Secrets)...)
	}
	if len(x.secrets) == 0 {
		return
	}
	shown := map[string]string{}
	for _, s := range rep.Steps {
		shown[fmt.Sprintf("step %q", s.ID)] = string(s.Params)
	}
	e := x.played(rep)
	shown["the result"] = e.asJSON()
	shown["a progress message"] = compact(e.Progress)
	shown["a log message"] = compact(e.Logs)
	for where, text := range shown {
		for _, secret := range x.secrets {
			if strings.Contains(text, strings.Trim(compact(secret), `"`)) {
				x.breaks(broken{"what is secret in the state stays there", where,
					fmt.Sprintf("the value of a saga.Secret is shown to the client in %s", where), "do not show it; or, if the client may know it, do not keep it as a Secret"})
			}
		}
	}
}

// secretValues are those in what a position encodes to. Values too short to be distinguished from
// chance are left out.
func secretValues(secrets []byte) (values []string) {
	for s, err := range engine.Secrets(secrets) {
		if err == nil && len(s.Value) >= 4 {
			values = append(values, string(s.Value))
		}
	}
	return values
}

// checkStrays reports effects that were asked for between turns. It looks at the
// end of the sweep, as that may take its time.
func (s *sweep) checkStrays(t testing.TB) {
	t.Helper()
	for _, x := range s.trials {
		x.rig.world.mu.Lock()
		stray := x.rig.world.stray
		x.rig.world.mu.Unlock()
		if len(stray) > 0 {
			s.reports.report(t, x.name, broken{"nothing goes on after a turn", "",
				fmt.Sprintf("effect %q was asked for when no turn was under way", stray[0]), "start no goroutine that outlives the turn"})
			return
		}
	}
}

// checkCalls checks what must be true of all effects of a scenario together.
func (x *trial) checkCalls(forked bool) {
	calls := x.rig.world.taken()
	first := make(map[saga.Key]*Call)
	undone := make(map[saga.Key]bool)
	for i := range calls {
		c := &calls[i]
		before := first[c.Key]
		switch {
		case c.Undo && before == nil && c.hook.Irreversible && !c.Known:
			// It is reported before it comes, so that it never does.
		case c.Undo && before == nil:
			x.breaks(broken{"only what was begun is undone", c.Effect, fmt.Sprintf("effect %q was undone, but it was never begun", c.Effect), "call no Undo yourself"})
		case c.Undo:
			undone[c.Key] = undone[c.Key] || c.Err == nil
		case before == nil:
			first[c.Key] = c
		case !before.hook.Input.Equal(c.hook.Input) && !forked:
			how := "secrets in its input"
			if !bytes.Equal(before.Input, c.Input) {
				how = fmt.Sprintf("inputs: first %s, then, when the turn was repeated, %s", short(string(before.Input), 200), short(string(c.Input), 200))
			}
			x.breaks(broken{"a turn that is repeated does the same", c.Effect, fmt.Sprintf("effect %q was begun twice with one key but with different %s", c.Effect, how), sameInput})
		case c.hook.ReadOnly: // it may find something else
		case before.did() && c.did() && !undone[c.Key] && bytes.Equal(before.Input, c.Input) && !before.out.Equal(c.out):
			x.breaks(broken{"an effect happens once per key", c.Effect,
				fmt.Sprintf("effect %q was performed twice with the same key and input, and the second time it had another result: first %s, then %s", c.Effect, short(string(before.Output), 200), short(string(c.Output), 200)),
				honourKey})
		}
	}
}

const sameInput = "let the input depend on nothing but the arguments, the answers and the state. The time and random numbers differ when a turn is repeated: decide on them in an earlier turn and keep them in the state; in a flow take them from the Run"

const honourKey = "hand the key that Do gets to the system behind it, as its idempotency key: when a key comes again, that system must not act again but return what it returned first"

// standing lists the effects that were done and not undone, by key in the order in
// which they were begun. final is an irreversible one, if one was done.
func (x *trial) standing() (names []string, forgotten []string, final string) {
	calls := x.rig.world.taken()
	there := make(map[saga.Key]bool)
	for i := range calls {
		switch c := &calls[i]; {
		case c.Undo && c.Err == nil && c.reached:
			there[c.Key] = false
		case c.Undo && errors.As(c.Err, new(*engine.FinalError)):
			final = c.Effect
		case !c.Undo && c.did():
			there[c.Key] = true
			if c.hook.Irreversible && c.Err == nil && !c.Cut {
				final = c.Effect
			}
		}
	}
	for _, c := range calls {
		if !there[c.Key] || c.hook.Irreversible || c.hook.ReadOnly || x.sweep.c.harmless(c.Effect) {
			continue
		}
		there[c.Key] = false // once for each
		names = append(names, c.Effect)
		if !c.hook.Undoable && !slices.Contains(forgotten, c.Effect) {
			forgotten = append(forgotten, c.Effect)
		}
	}
	return names, forgotten, final
}
