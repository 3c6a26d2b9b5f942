package sagatest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/saga"
)

// expectation is how a scenario must end.
type expectation int

const (
	// asScripted: well, unless Case.Fails says that the script leads to a failure.
	asScripted expectation = iota
	// asUndisturbed: with the same result, and the world as it is then.
	asUndisturbed
	// undone: with everything undone, or, if it was too late for that, as undisturbed.
	undone
	// settled: with everything undone if it ends badly; a good end is the tool's affair, but for effects of which it does
	// not know what became of them.
	settled
	// either: all done or all undone, as two branches disagree about which.
	either
	// alike: well or badly as undisturbed; the time may show in the result.
	alike
)

// conclude takes down how a scenario has ended.
func (x *trial) conclude() {
	x.end = x.played(x.got)
	x.end.Scenario = x.name
	x.result, x.after = x.sweep.c.same(x.end), x.rig.world.now()
}

// judge looks at the end of a scenario, reports what is wrong, and lets the author
// look.
func (x *trial) judge(want expectation) {
	x.t.Helper()
	x.conclude()
	if len(x.broken) == 0 {
		x.checkCalls(want == either)
	}
	if len(x.broken) == 0 && !x.got.ended && x.got.err == nil {
		x.breaks(broken{"a saga ends", "", "it is still suspended", "let the script lead to the end"})
	}
	if len(x.broken) == 0 {
		x.checkEnd(want)
	}
	for _, b := range x.broken {
		x.sweep.report(x.t, x.name, b)
	}
	if len(x.broken) == 0 && !x.orphans {
		x.letCheck(want)
	}
}

func (x *trial) checkEnd(want expectation) {
	u, good := x.end.Undo(), x.end.Good()
	switch {
	case want == either:
		x.checkEither()
	case u != nil && len(u.Outstanding) > 0:
		// What is kept for something else was not tried.
		failed := strings.Join(slices.DeleteFunc(slices.Clone(u.Outstanding), func(name string) bool { return slices.Contains(u.Kept, name) }), ", ")
		x.breaks(broken{"what was begun can be undone", failed, fmt.Sprintf("Undo failed for %s: %v", failed, x.end.Err),
			"let Undo find out by the key what there is to undo. It must succeed when nothing was done (known is then false), and when everything is undone already. If it needs what another effect has done, such as a backup, name that one in BuildsOn, so that it stays while this undo fails"})
	case want == asScripted && good && x.sweep.c.Fails:
		x.breaks(broken{"the script leads to a failure, as Case.Fails says", "", "the saga ended well: " + said(x.end), "take Case.Fails away, or mend the script"})
	case want == asScripted && !good && !x.sweep.c.Fails:
		x.breaks(broken{"the script leads to a good end", "", "the saga did not end well: " + said(x.end), "mend the tool or the script; if it is to end like this, say so with Case.Fails"})
	case want == alike, want == asUndisturbed, want == undone && good:
		if x.checkGood(x.sweep.base.end.Good()) && want != alike && !x.orphans {
			x.checkSame()
		}
	case !good && !x.orphans:
		x.checkUndone()
	case good:
		x.checkKnown()
	}
}

// checkGood reports whether the saga ended well, or badly, as it must.
func (x *trial) checkGood(good bool) bool {
	if x.end.Good() == good {
		return true
	}
	what := "it ended well, but the undisturbed saga does not"
	if good {
		what = fmt.Sprintf("it did not end well: %s", said(x.end))
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

// checkSame compares result and world with those of the undisturbed saga.
func (x *trial) checkSame() {
	switch base := x.sweep.base; {
	case x.result != base.result:
		x.breaks(broken{"a disturbance does not change the result", "", "the result is another one than undisturbed:" + differ(base.result, x.result),
			"let the result depend on nothing but the arguments, the answers and what effects returned. If it must hold a time, or a number that others count, say with Case.Same what of it must stay the same"})
	case x.after != base.after:
		x.breaks(broken{"a disturbance does not change the world", "",
			"afterwards the world is not as it is after an undisturbed saga:" + differ(base.after, x.after),
			"most likely an effect acted twice, or not at all. To act once, " + honourKey})
	}
}

// checkKnown reports effects that stand after a good end although the tool knew that their outcome is unknown.
func (x *trial) checkKnown() {
	calls := x.rig.world.taken()
	last := make(map[saga.Key]*Call) // those that are not undone
	for i := range calls {
		switch c := &calls[i]; {
		case !c.Undo:
			last[c.Key] = c
		case c.Err == nil:
			delete(last, c.Key)
		}
	}
	for i := range calls {
		if c := &calls[i]; last[c.Key] == c && c.did() && c.Err != nil && c.hook.Undoable && !x.sweep.c.harmless(c) {
			x.breaks(broken{"a saga that ends well knows what it did", c.Effect,
				fmt.Sprintf("effect %q failed with an unknown outcome, but had done its work; the saga ended well, and nothing undoes the effect", c.Effect),
				"continue another way only after an EffectError that is not Unknown. Return the others: the saga then ends badly, and the engine undoes what was perhaps done. If what it does may stay, list it in Case.Harmless"})
		}
	}
}

// checkUndone reports what is left of a saga that ended badly.
func (x *trial) checkUndone() {
	names, forgotten, final := x.standing()
	switch {
	case final: // from there the saga goes forward only
	case x.after != x.sweep.base.before:
		x.breaks(left(names, forgotten, "; afterwards the world is not as it was before:"+differ(x.sweep.base.before, x.after)))
	case x.subject.World == nil && len(names) > 0:
		x.breaks(left(names, forgotten, ""))
	}
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

// checkEither checks a fork: the last to end was the one that this trial has the end of.
func (x *trial) checkEither() {
	base, good := x.sweep.base, x.end.Good()
	if x.after == base.after && (good || x.fork.Good()) || x.after == base.before && !good {
		return
	}
	what := "afterwards the world is neither as after a saga that ended well nor as before:"
	if x.after == base.before {
		what = "the client was told that the saga ended well, but nothing of what it did is there:"
	}
	x.breaks(broken{"a fork is done as a whole or undone as a whole", "", what + differ(base.after, x.after),
		"a client can use one token twice with different answers, so an effect may come when what it builds on has been undone, and an undo when what it reverses was made final. Let Do fail with saga.Refused in the one case and Undo with an error in the other; end with an effect that checks. If the systems behind cannot check, and what is left then does no harm, leave out \"forks\" with Case.Skip"})
}

// letCheck calls the author's checks. Of a fork they get the ending that the world agrees with.
func (x *trial) letCheck(want expectation) {
	if want == either {
		switch {
		case x.subject.World == nil:
			return
		case !x.end.Good() && x.after != x.sweep.base.before:
			x.end = x.fork
			x.end.Scenario = x.name
		}
	}
	x.check()
}

func (x *trial) check() {
	for _, check := range []func(t testing.TB, e *Played){x.subject.Check, x.sweep.c.Check} {
		if check != nil {
			check(x.t, x.end)
		}
	}
}
