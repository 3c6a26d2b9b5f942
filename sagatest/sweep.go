package sagatest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/engine"
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
//   - "consents": nothing goes wrong, but a consent comes when what it can be for is done and cannot be undone.
//   - "tasks": servers drive the saga as a task; a worker dies at each of its writes to the ledger,
//     or the client cancels there. Only for tools whose Tasks allow it. They are played in bubbles
//     of testing/synctest: New and the tool must not wait for goroutines from outside.
//
// Before all of them the script is played undisturbed: twice, and once with each turn taken by
// another server, which has made the tool anew, until one has acted.
//
// After each it checks that the end is what it must be: a disturbance changes neither
// the result nor the world; a saga that ends badly is undone as a whole, and one that ends well
// leaves no effect whose outcome it does not know; an effect happens once per key; flows return when they have asked and do the same when they
// run again; nothing acts between turns; a consent comes before what it is for; an event has
// a key, or its handle was given away; nothing secret is shown. Each broken rule is reported with the scenario and with what to do, and
// explained once.
//
// A turn that is cut off ends where it is, as if its process had been killed, except
// that its deferred functions run.
func Sweep(t testing.TB, c Case) {
	t.Helper()
	s := newSweep(t, c)
	if !s.rehearse() {
		return
	}
	s.plan()
	for _, sc := range s.planned {
		s.run(sc)
	}
	s.checkStrays()
}

// sweep is what its scenarios share.
type sweep struct {
	t      testing.TB
	c      Case
	script *script
	codec  *tokens.Codec
	base   *trial // in which nothing goes wrong
	tool   *engine.Program
	trials []*trial
	// explained are mistakes, by rule and what they are about, with the scenario at which each was.
	explained map[[2]string]string
	// planned are the scenarios, and kind is that of those which are planned now.
	planned []scenario
	kind    string
	// recording: suspensions become entries of a journal.
	recording bool
	entries   []*entry
}

func newSweep(t testing.TB, c Case) *sweep {
	t.Helper()
	return &sweep{t: t, c: c, codec: newCodec(t, sweepTTL), script: newScript(c.Script), explained: make(map[[2]string]string)}
}

// rehearse plays the script undisturbed, three times. It reports whether a sweep makes sense.
func (s *sweep) rehearse() bool {
	s.t.Helper()
	const name = "nothing goes wrong"
	first := s.undisturbed(name)
	if first == nil {
		return false
	}
	checkCost(s.t, first.rounds, s.c.MaxRounds, s.c.MaxToken)
	second := s.undisturbed(name + ", once more")
	if second == nil {
		return false
	}
	if what, how := second.differs(first); what != "" {
		s.report(s.t, name, broken{"two undisturbed sagas are alike", what, "the " + what + " differs between two of them:" + how,
			"let New make a new world each time, and let the tool depend on nothing else; take what must differ out of World, and say with Case.Same what of the result must stay the same"})
		return false
	}
	moved := s.undisturbed(elsewhere)
	if moved == nil {
		return false
	}
	if what, how := moved.differs(second); what != "" {
		s.report(s.t, elsewhere, broken{"nothing survives between two turns but the token", "",
			"the " + what + " differs from that of a saga whose turns all come to one server:" + how,
			"keep what a later turn needs in the state (or, in a flow, take it from what was answered), not in a variable: other calls share that, and another server lacks it"})
		return false
	}
	s.base = second
	return true
}

// differs says what of a trial is not as it is in another, and how.
func (x *trial) differs(from *trial) (what, how string) {
	switch {
	case x.before != from.before:
		return "world before", differ(from.before, x.before)
	case x.result != from.result:
		return "result", differ(from.result, x.result)
	case x.after != from.after:
		return "world after", differ(from.after, x.after)
	}
	return "", ""
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

// undisturbed plays the script to its end and returns that trial, or nil if it breaks a rule already.
func (s *sweep) undisturbed(name string) *trial {
	s.t.Helper()
	failed := s.t.Failed()
	x := s.newTrial(s.t, name)
	s.tool, s.base = x.rig.tool, x
	x.play()
	x.judge(asScripted)
	if text := s.script.leftover(); text != "" && !s.recording { // a journal has answers for what was recorded before
		s.t.Errorf("sagatest: %s", text)
		return nil
	}
	if len(x.broken) > 0 || s.t.Failed() && !failed {
		return nil
	}
	return x
}

func (s *sweep) run(sc scenario) {
	s.t.Helper()
	subtest(s.t, sc.name, func(t testing.TB) {
		play := func(x *trial) {
			var q request
			if sc.turn > 0 {
				q = x.to(sc.turn)
			}
			if !x.stopped {
				sc.run(x, q)
			}
			x.judge(sc.want)
		}
		if sc.kind != "tasks" {
			play(s.newTrial(t, sc.name))
		} else if b := s.inBubble(t, sc.name, play); b != nil {
			s.report(t, sc.name, *b)
		}
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

// plan plans everything that can go wrong on the way of the script.
func (s *sweep) plan() {
	s.t.Helper()
	kinds := map[string]func(){
		"crashes": s.crashes, "stops": s.stops, "losses": s.losses, "duplicates": s.duplicates, "forks": s.forks,
		"refusals": s.refusals, "cancels": s.cancels, "failures": s.failures, "expiries": s.expiries, "events": s.events,
		"routes": s.routes, "consents": s.consents, "tasks": s.tasks,
	}
	for _, k := range s.c.Skip {
		if kinds[k] == nil {
			s.t.Errorf("sagatest: Case.Skip has %q, which is no kind of scenarios", k)
		}
	}
	s.beforeQuestion()
	s.undelivered()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if s.kind = kind; !slices.Contains(s.c.Skip, kind) && !slices.Contains(s.impossible(), kind) {
			kinds[kind]()
		}
	}
}

// impossible are the kinds of scenarios that no server has with this tool.
func (s *sweep) impossible() []string {
	switch {
	case s.tool.Tasks.Mode == engine.TasksRequired:
		// No client takes its turns, and so can repeat one: the workers do, of whom some die.
		return []string{"crashes", "stops", "losses", "duplicates", "forks", "events", "routes"}
	case s.remembered():
		return []string{"losses", "duplicates", "forks"} // a ledger answers for the tool
	}
	return nil
}

// remembered reports whether only servers take the tool whose ledger remembers each turn.
func (s *sweep) remembered() bool {
	return s.base.rig.ledger != nil && s.tool.Remembered()
}

// beforeQuestion reports effects of the first turn: if that turn is lost, the client
// has no token with which they could be undone. A task is not lost, and a ledger undoes what is abandoned.
func (s *sweep) beforeQuestion() {
	var list []broken
	for _, c := range s.base.end.Calls {
		undone := s.remembered() && c.hook.Undoable && !c.hook.Irreversible
		if c.Turn == 1 && !c.Undo && !s.c.harmless(&c) && s.tool.Tasks.Mode != engine.TasksRequired && !undone {
			list = append(list, broken{"a saga asks before it acts", c.Effect,
				fmt.Sprintf("effect %q is performed in the first turn. If the response to that turn is lost, the client has no token: nobody can undo the effect, and the client's next call is another saga, which performs it again", c.Effect),
				"ask a question first, if only for a confirmation. If the effect changes nothing, say so with its ReadOnly; if what it does expires by itself, list it in Case.Harmless"})
		}
	}
	if list != nil {
		s.breaksAtLast("effects before the first question", list...)
	}
}

// consents: the user agrees when there is nothing left to agree to, as the effect that it can be for was performed before, and
// cannot be undone.
func (s *sweep) consents() {
	var done *Call // the last effect
	for i, c := range s.base.end.Calls {
		if !c.Undo && !s.c.harmless(&c) {
			done = &s.base.end.Calls[i]
		}
	}
	if done == nil || done.hook.Undoable && !done.hook.Irreversible {
		return
	}
	for i, r := range s.base.rounds {
		consent := slices.IndexFunc(r.Asked, func(a Asked) bool { return s.tool.Routing(a.ID).Consent })
		if consent < 0 {
			continue
		}
		if i+1 >= done.Turn { // otherwise there was one before
			s.breaksAtLast("the consent "+r.Asked[consent].ID+" comes last", broken{"a consent comes before what it is for", done.Effect,
				fmt.Sprintf("%q asks for a consent, and no effect follows; effect %q was performed before it, and cannot be undone", r.Asked[consent].ID, done.Effect),
				"ask for the consent first. If it is for nothing that an effect does, it needs no Consent"})
		}
		return
	}
}
