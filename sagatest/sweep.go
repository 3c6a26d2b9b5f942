package sagatest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// Sweep runs a tool through everything that can go wrong on the way of its script,
// one scenario each. Every scenario is a subtest with a name that says what happens;
// [Case.Skip] leaves out kinds. These are the kinds:
//
//   - "crashes": a turn is cut off before or after an effect, or while undoing; the
//     client repeats the turn, or cancels with the answers it had sent.
//   - "stops": a turn is stopped from outside before an effect, as a timeout does.
//   - "losses": a turn is taken and its response lost; the client repeats or cancels.
//   - "duplicates": a turn is taken again after the end.
//   - "forks": one token is used twice, with different answers. A client is free to do
//     that, so leave them out only if what then happens does no harm.
//   - "refusals": each step is declined, cancelled, or fails in the client.
//   - "cancels": the client cancels the saga.
//   - "failures": an effect is refused, or fails with or without having been done; an
//     undo fails.
//   - "expiries": the client comes back too late.
//   - "events": what the saga waits for comes before it begins, is rejected, or does not come in time.
//   - "routes": the client cannot ask, so the user is asked by a form in the host's window, on a page, or by the model. What
//     no model may answer then ends the saga, and undoes it.
//   - "tasks": servers drive the saga as a task; a worker dies at each of its writes to the ledger,
//     or the client cancels there. Only for tools whose Tasks allow it. They are played in bubbles
//     of testing/synctest: New and the tool must not wait for goroutines from outside.
//
// Before all of them the script is played undisturbed: twice, and once with each turn taken by
// another server, which has made the tool anew, until one has acted.
//
// After each it checks that the end is what it must be: a disturbance changes neither
// the result nor the world; a saga that ends badly is undone as a whole; an effect
// happens once per key; flows return when they have asked and do the same when they
// run again; nothing acts between turns; nothing secret is shown. Each broken rule is
// reported with the scenario and with what to do, and explained once.
//
// A turn that is cut off ends where it is, as if its process had been killed, except
// that its deferred functions run.
func Sweep(t testing.TB, c Case) {
	t.Helper()
	s := newSweep(t, c)
	if !s.rehearse(t) {
		return
	}
	kinds, n := s.scenarios(t), 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for _, sc := range kinds[kind] {
			if n++; n <= maxScenarios {
				s.run(t, kind, sc)
			}
		}
	}
	if n > maxScenarios {
		t.Logf("sagatest: of %d scenarios only %d were run; a shorter script has fewer", n, maxScenarios)
	}
	s.checkStrays(t)
}

const maxScenarios = 2000

// sweep is what its scenarios share.
type sweep struct {
	t       testing.TB
	c       Case
	script  *script
	codec   *tokens.Codec
	base    *baseline
	tool    *engine.Program
	reports reports
	trials  []*trial
	// recording: suspensions become entries of a journal.
	recording bool
	entries   []*entry
}

// baseline is what happens when nothing goes wrong.
type baseline struct {
	rounds        []Round
	calls         []Call
	turns         int
	before, after string            // the world
	awaits        [][]tasks.Awaited // of each round
	result        string
	good          bool
}

func newSweep(t testing.TB, c Case) *sweep {
	t.Helper()
	return &sweep{t: t, c: c, codec: newCodec(t, sweepTTL), script: newScript(c.Script)}
}

// rehearse plays the script undisturbed, twice. It reports whether a sweep makes
// sense.
func (s *sweep) rehearse(t testing.TB) bool {
	t.Helper()
	const name = "nothing goes wrong"
	first := s.undisturbed(t, name)
	if first == nil {
		return false
	}
	checkCost(t, first.rounds, s.c.MaxRounds, s.c.MaxToken)
	second := s.undisturbed(t, name+", once more")
	if second == nil {
		return false
	}
	advice := "let New make a new world each time, and let the tool depend on nothing else; take what must differ out of World, and say with Case.Same what of the result must stay the same"
	for what, two := range map[string][2]string{"result": {first.result, second.result}, "world before": {first.before, second.before}, "world after": {first.after, second.after}} {
		if two[0] != two[1] {
			s.reports.report(t, name, broken{"two undisturbed sagas are alike", what, "the " + what + " differs between two of them:" + differ(two[0], two[1]), advice})
			return false
		}
	}
	moved := s.undisturbed(t, elsewhere)
	if moved != nil && (moved.result != second.result || moved.after != second.after) {
		s.reports.report(t, elsewhere, broken{"nothing survives between two turns but the token", "",
			"the end differs from that of a saga whose turns all come to one server:" + differ(second.result+second.after, moved.result+moved.after),
			"keep what a later turn needs in the state (or, in a flow, take it from what was answered), not in a variable: other calls share that, and another server lacks it"})
		return false
	}
	s.base = second
	return moved != nil
}

// elsewhere is a saga whose turns come to servers that share no memory, until one has acted: from then
// on the world is no longer as New makes it.
const elsewhere = "each turn comes to another server"

// move has the next turn taken by a tool that New has made anew.
func (x *trial) move() {
	if x.name != elsewhere || len(x.rig.world.taken()) > 0 {
		return
	}
	x.subject = x.sweep.c.subject(x.t)
	x.rig.definition = x.subject.Tool
	x.rig.world.lookAt(x.subject)
}

// undisturbed plays the script to its end and returns what happened, or nil if that
// breaks a rule already.
func (s *sweep) undisturbed(t testing.TB, name string) *baseline {
	t.Helper()
	failed := t.Failed()
	x := s.newTrial(t, name)
	s.tool, _ = x.subject.Tool.Compile()
	s.base = &baseline{before: x.rig.world.looked}
	x.play()
	e := x.played(x.got)
	if good := !s.c.Fails; len(x.broken) == 0 && e.Good() != good {
		b := broken{"the script leads to a good end", "", "the saga did not end well: " + said(e), "mend the tool or the script; if it is to end like this, say so with Case.Fails"}
		if !good {
			b = broken{"the script leads to a failure, as Case.Fails says", "", "the saga ended well: " + said(e), "take Case.Fails away, or mend the script"}
		}
		x.breaks(b)
	}
	s.base.rounds, s.base.calls, s.base.turns, s.base.awaits = x.rounds, e.Calls, x.turns, x.awaits
	s.base.result, s.base.good, s.base.after = s.c.same(e), e.Good(), x.rig.world.looked
	x.judge(settled)
	if text := s.script.leftover(); text != "" && !s.recording { // a journal has answers for what was recorded before
		t.Errorf("sagatest: %s", text)
		return nil
	}
	if len(x.broken) > 0 || t.Failed() && !failed {
		return nil
	}
	return s.base
}

func (s *sweep) run(t testing.TB, kind string, sc scenario) {
	t.Helper()
	subtest(t, sc.name, func(t testing.TB) {
		play := func(x *trial) {
			var q request
			ok := true
			if sc.turn > 0 {
				if ok = x.to(sc.turn); ok {
					q, ok = x.request()
				}
			}
			if ok {
				sc.run(x, q)
			}
			x.judge(sc.want)
		}
		if kind == "tasks" {
			if b := s.inBubble(t, sc.name, play); b != nil {
				s.reports.report(t, sc.name, *b)
			}
			return
		}
		play(s.newTrial(t, sc.name))
	})
}

// subtest runs f as a subtest, where there are subtests.
func subtest(t testing.TB, name string, f func(testing.TB)) {
	t.Helper()
	if r, ok := t.(interface {
		Run(name string, f func(*testing.T)) bool
	}); ok {
		r.Run(name, func(t *testing.T) { f(t) })
		return
	}
	f(t)
}

// scenarios are everything that can go wrong on the way of the script, by kinds.
func (s *sweep) scenarios(t testing.TB) map[string][]scenario {
	t.Helper()
	kinds := map[string]func() []scenario{
		"crashes": s.crashes, "stops": s.stops, "losses": s.losses, "duplicates": s.duplicates, "forks": s.forks,
		"refusals": s.refusals, "cancels": s.cancels, "failures": s.failures, "expiries": s.expiries, "events": s.events,
		"routes": s.routes,
		"tasks":  s.tasks,
	}
	for _, k := range s.c.Skip {
		if kinds[k] == nil {
			t.Errorf("sagatest: Case.Skip has %q, which is no kind of scenarios", k)
		}
	}
	list := map[string][]scenario{"": s.beforeQuestion()}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		if !slices.Contains(s.c.Skip, k) && !slices.Contains(s.impossible(), k) {
			list[k] = kinds[k]()
		}
	}
	return list
}

// impossible are the kinds of scenarios that no server has with this tool.
func (s *sweep) impossible() []string {
	switch {
	case s.tool.Tasks.Mode == engine.TasksRequired:
		// No client takes its turns, and so can repeat one: the workers do, of whom some die.
		return []string{"crashes", "stops", "losses", "duplicates", "forks", "events", "routes"}
	case s.tool.SingleUse == engine.SingleUseRequired, s.tool.Waits() && s.tool.Remembered():
		return []string{"losses", "duplicates", "forks"} // a ledger answers for the tool
	}
	return nil
}

// beforeQuestion reports effects of the first turn: if that turn is lost, the client
// has no token with which they could be undone. A task is not lost.
func (s *sweep) beforeQuestion() []scenario {
	if s.tool.Tasks.Mode == engine.TasksRequired {
		return nil
	}
	var names []string
	for _, c := range s.base.calls {
		if c.Turn == 1 && !c.Undo && !c.hook.ReadOnly && !s.c.harmless(c.Effect) && !slices.Contains(names, c.Effect) {
			names = append(names, c.Effect)
		}
	}
	if names == nil {
		return nil
	}
	return []scenario{{"effects before the first question", 0, settled, func(x *trial, _ request) {
		x.play()
		for _, name := range names {
			x.breaks(broken{"a saga asks before it acts", name,
				fmt.Sprintf("effect %q is performed in the first turn. If the response to that turn is lost, the client has no token: nobody can undo the effect, and the client's next call is another saga, which performs it again", name),
				"ask a question first, if only for a confirmation. If the effect changes nothing, say so with its ReadOnly; if what it does expires by itself, list it in Case.Harmless"})
		}
	}}}
}
