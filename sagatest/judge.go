package sagatest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// expectation is how a scenario must end.
type expectation int

const (
	// asUndisturbed: with the same result, and the world as it is then.
	asUndisturbed expectation = iota
	// undone: with everything undone, or, if it was too late for that, as undisturbed.
	undone
	// settled: with everything undone if it ends badly; a good end is the tool's affair.
	settled
	// either: all done or all undone, as two branches disagree about which.
	either
	// alike: well or badly as undisturbed; the time may show in the result.
	alike
)

// judge looks at the end of a scenario, reports what is wrong, and lets the author
// look.
func (x *trial) judge(want expectation) {
	x.t.Helper()
	e := x.played(x.got)
	e.Scenario = x.name
	if len(x.broken) == 0 {
		x.checkCalls(want == either)
	}
	if len(x.broken) == 0 && !x.got.ended && x.got.err == nil {
		x.breaks(broken{"a saga ends", "", "it is still suspended", "let the script lead to the end"})
	}
	if len(x.broken) == 0 {
		x.checkEnd(want, e)
	}
	for i, b := range x.broken {
		if !slices.ContainsFunc(x.broken[:i], func(c broken) bool { return c.rule == b.rule && c.about == b.about }) {
			x.sweep.reports.report(x.t, x.name, b)
		}
	}
	if len(x.broken) == 0 && !x.orphans {
		x.letCheck(want, e)
	}
}

func (x *trial) checkEnd(want expectation, e *Played) {
	base := x.sweep.base
	if u := e.Undo(); u != nil && len(u.Outstanding) > 0 && want != either {
		// What is kept for something else was not tried.
		failed := strings.Join(slices.DeleteFunc(slices.Clone(u.Outstanding), func(name string) bool { return slices.Contains(u.Kept, name) }), ", ")
		x.breaks(broken{"what was begun can be undone", failed, fmt.Sprintf("Undo failed for %s: %v", failed, e.Err),
			"let Undo find out by the key what there is to undo. It must succeed when nothing was done (known is then false), and when everything is undone already. If it needs what another effect has done, such as a backup, name that one in BuildsOn, so that it stays while this undo fails"})
		return
	}
	good := e.Good()
	switch {
	case want == either:
		x.checkEither(e)
	case want == alike:
		x.checkGood(base, e)
	case want == asUndisturbed, want == undone && good:
		x.checkSame(base, e)
	case !good:
		x.checkUndone(base)
	}
}

// checkGood reports whether the saga ended as well or badly as undisturbed.
func (x *trial) checkGood(base *baseline, e *Played) bool {
	if e.Good() == base.good {
		return true
	}
	what := "it ended well, but the undisturbed saga does not"
	if base.good {
		what = fmt.Sprintf("it did not end well: %s", said(e))
	}
	x.breaks(broken{"a disturbance does not change the end", "", what,
		"find out from the error what the disturbance did to the tool: a turn that is repeated must find what it did before, by the effects' keys"})
	return false
}

func said(e *Played) string {
	text := short(e.Text(), 400)
	if e.Err != nil {
		text += fmt.Sprintf("\nreason, for the operator's log: %v", e.Err)
	}
	return text
}

func (x *trial) checkSame(base *baseline, e *Played) {
	if !x.checkGood(base, e) || x.orphans {
		return
	}
	if got := x.sweep.c.same(e); got != base.result {
		x.breaks(broken{"a disturbance does not change the result", "", "the result is another one than undisturbed:" + differ(base.result, got),
			"let the result depend on nothing but the arguments, the answers and what effects returned. If it must hold a time, or a number that others count, say with Case.Same what of it must stay the same"})
		return
	}
	if now, seen := x.world(); seen && now != base.after {
		x.breaks(broken{"a disturbance does not change the world", "",
			"afterwards the world is not as it is after an undisturbed saga:" + differ(base.after, now),
			"most likely an effect acted twice, or not at all. To act once, " + honourKey})
	}
}

// checkUndone reports what is left of a saga that ended badly.
func (x *trial) checkUndone(base *baseline) {
	names, forgotten, final := x.standing()
	if final != "" || x.orphans {
		return // from there the saga goes forward only
	}
	now, seen := x.world()
	switch {
	case seen && now != base.before:
		x.breaks(left(names, forgotten, "; afterwards the world is not as it was before:"+differ(base.before, now)))
	case !seen && len(names) > 0:
		x.breaks(left(names, forgotten, ""))
	}
}

// world is what the author's world looks like now, if there is a view of it.
func (x *trial) world() (now string, seen bool) {
	if x.subject.World == nil {
		return "", false
	}
	return look(x.subject.World()), true
}

// left describes effects of a saga that ended badly and are not undone.
func left(names, forgotten []string, seen string) broken {
	b := broken{rule: "a saga that ends badly undoes what it did"}
	quoted := func(list []string) string { return `"` + strings.Join(list, `", "`) + `"` }
	switch {
	case len(forgotten) > 0:
		b.about = quoted(forgotten)
		b.what = fmt.Sprintf("the saga ended badly, and effect %s was done and has no Undo", b.about)
		b.advice = "give the effect an Undo. If there is no way back from it, mark it Irreversible and perform it last; if it changes nothing, say so with its ReadOnly; if what it does expires by itself, list it in Case.Harmless"
	case len(names) > 0:
		b.about = quoted(names)
		b.what = fmt.Sprintf("the saga ended badly, and effect %s was done and not undone", b.about)
		b.advice = "end the saga with an error result or an error when it fails, so that the engine undoes its effects"
	default:
		b.what = "the saga ended badly; Undo was called for everything that it did, but something is left"
		b.advice = "let Undo reverse all that Do does; with known=false it must find out by the key whether Do did it. What is not an effect is not undone: make it one"
	}
	b.what += seen
	return b
}

// checkEither checks a fork: the last to end was the one that got e.
func (x *trial) checkEither(e *Played) {
	base := x.sweep.base
	now, seen := x.world()
	if !seen || now == base.after && (e.Good() || x.fork.Good()) || now == base.before && !e.Good() {
		return
	}
	what := "afterwards the world is neither as after a saga that ended well nor as before:"
	if now == base.before {
		what = "the client was told that the saga ended well, but nothing of what it did is there:"
	}
	x.breaks(broken{"a fork is done as a whole or undone as a whole", "", what + differ(base.after, now),
		"a client can use one token twice with different answers, so an effect may come when what it builds on has been undone, and an undo when what it reverses was made final. Let Do fail with saga.Refused in the one case and Undo with an error in the other; end with an effect that checks. If the systems behind cannot check, and what is left then does no harm, leave out \"forks\" with Case.Skip"})
}

// letCheck calls the author's checks.
func (x *trial) letCheck(want expectation, e *Played) {
	if want == either {
		now, seen := x.world()
		if !seen {
			return
		}
		if !e.Good() && now != x.sweep.base.before {
			e = x.fork
			e.Scenario = x.name
		}
	}
	x.check(e)
}

func (x *trial) check(e *Played) {
	for _, check := range []func(t testing.TB, e *Played){x.subject.Check, x.sweep.c.Check} {
		if check != nil {
			check(x.t, e)
		}
	}
}
