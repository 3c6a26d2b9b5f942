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

// broken is a rule that a tool has broken.
type broken struct {
	// rule is said as what ought to be.
	rule string
	// about tells cases of one rule apart that are to be reported separately.
	about string
	// what happened, and how to mend it.
	what, advice string
}

// report explains each mistake once, however many scenarios it spoils.
func (s *sweep) report(t testing.TB, scenario string, b broken) {
	t.Helper()
	mistake := [2]string{b.rule, b.about}
	if first, ok := s.explained[mistake]; ok {
		t.Errorf("sagatest: again a broken rule: %s\n  scenario: %s\n  explained at: %s", b.rule, scenario, first)
		return
	}
	s.explained[mistake] = scenario
	t.Errorf("sagatest: broken rule: %s\n  scenario: %s\n  what happened: %s\n  what to do: %s", b.rule, scenario, strings.ReplaceAll(b.what, "\n", "\n    "), b.advice)
}

// mistake recognises errors that only a faulty tool brings about.
func mistake(err error) (broken, bool) {
	if err == nil {
		return broken{}, false
	}
	var panicked *engine.PanicError
	text := err.Error()
	switch {
	case errors.As(err, new(*engine.SwallowedError)):
		return broken{"a flow that has asked returns at once", "", text,
			"return every error of saga.Ask, r.AskAll and saga.Do where you get it, as it is or wrapped with %w: it may mean that the flow has to wait for an answer"}, true
	case errors.As(err, new(*engine.DivergedError)):
		return broken{"a flow does the same each time it runs", "", text,
			"take the time from r.Now(), ids from r.NewID() and random numbers from r.Rand(); do not range over a map; perform as an effect whatever looks at something that others may change"}, true
	case errors.As(err, &panicked):
		return broken{"a tool does not panic", text, text + "\n" + origin(panicked.Stack), "return an error instead"}, true
	case errors.Is(err, errGoexit):
		return broken{"a tool's code returns", "", text, "let the tool return an error, and check in the test"}, true
	case strings.Contains(text, "is not declared"), strings.Contains(text, "is another one than the tool's Asks have"):
		return broken{"what a tool asks and does is declared", text, text,
			"list the question in Asks, or the effect in Effects, of the tool's definition: the very variable, not a copy"}, true
	}
	return broken{}, false
}

// origin returns the lines of a stack that tell where a panic began.
func origin(stack []byte) string {
	_, rest, _ := strings.Cut(string(stack), "panic(")
	lines := strings.SplitN(rest, "\n", 5)
	if len(lines) < 4 {
		return ""
	}
	return "in " + strings.TrimSpace(lines[2]) + "\n  " + strings.TrimSpace(lines[3])
}

// differ shows where two texts part.
func differ(want, got string) string {
	const around, most = 60, 400
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	if i > around && max(len(want), len(got)) > most {
		want, got = "…"+want[i-around:], "…"+got[i-around:]
	}
	return fmt.Sprintf("\nexpected: %s\nbut is:   %s", short(want, most), short(got, most))
}

func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}

// inspect checks what must be true of every response.
func (x *trial) inspect(rep reply) {
	list := x.rig.world.broke(rep.Token != "")
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
	for _, b := range list {
		x.breaks(b)
	}
	x.leaks(rep)
}

// leaks checks that no secret of a state is shown to the client.
func (x *trial) leaks(rep reply) {
	if rep.Position != nil {
		for s, err := range engine.Secrets(rep.Position.Encode().Secrets) {
			if err == nil && len(s.Value) >= 4 { // shorter ones may be shown by chance
				x.secrets = append(x.secrets, string(s.Value))
			}
		}
	}
	if len(x.secrets) == 0 {
		return
	}
	shown := map[string]string{}
	for _, s := range rep.Steps {
		shown[fmt.Sprintf("step %q", s.ID)] = compact(s.Params)
	}
	e := x.played(rep)
	shown["a part of the result"] = compact(rep.Yielded)
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

// checkStrays reports effects that were asked for between turns. It looks at the
// end of the sweep, as that may take its time.
func (s *sweep) checkStrays() {
	s.t.Helper()
	for _, x := range s.trials {
		x.rig.world.mu.Lock()
		stray := x.rig.world.stray
		x.rig.world.mu.Unlock()
		if stray != "" {
			s.report(s.t, x.name, broken{"nothing goes on after a turn", "",
				fmt.Sprintf("effect %q was asked for when no turn was under way", stray), "start no goroutine that outlives the turn"})
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

// standing lists the effects that were done and not undone, each once, and those of them that have no Undo. final says
// that an irreversible one was done.
func (x *trial) standing() (names, forgotten []string, final bool) {
	calls := x.rig.world.taken()
	there := make(map[saga.Key]bool)
	for i := range calls {
		switch c := &calls[i]; {
		case c.Undo:
			there[c.Key] = there[c.Key] && (c.Err != nil || !c.reached)
			final = final || errors.As(c.Err, new(*engine.FinalError))
		case c.did():
			there[c.Key] = true
			final = final || c.hook.Irreversible && c.Err == nil && !c.Cut
		}
	}
	for _, c := range calls {
		if !there[c.Key] || c.hook.Irreversible || x.sweep.c.harmless(&c) {
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
