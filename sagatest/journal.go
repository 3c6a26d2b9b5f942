package sagatest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// updateEnv is the environment variable that lets [Journal] write.
const updateEnv = "SAGATEST_UPDATE"

// journalDir is where [Journal] keeps its records, in the directory of the test.
const journalDir = "testdata/sagas"

// Journal proves that sagas which were suspended under earlier code still come to a
// good end, or with [Case.Fails] still fail. Record where the sagas of today are suspended, and commit that:
//
//	SAGATEST_UPDATE=1 go test ./...
//
// From then on every test run resumes each recorded saga with the present code and
// fails if one does not end well (or with [Case.Fails], badly), or has another result (see
// [Case.Same]): the change that did that would do it to sagas under way when it is deployed. There is a directory for each
// revision of the tool, testdata/sagas/<tool>/<revision> (see [Case.Journal] for a second
// script), and a file for each suspension.
// Updating adds what is missing, and takes over results; what else is recorded stays,
// as it may have been deployed. To record a revision that was never deployed anew, delete its directory.
//
// The records are positions, not tokens: they hold no keys and do not expire. They
// are not encrypted; use no real data in the script. What a saga had done before it
// was suspended is done again in the world that [Case.New] makes.
//
// When the present code no longer reads a revision, say so with [Case.Retired]; its
// sagas must then be undone without a trace.
func Journal(t testing.TB, c Case) {
	t.Helper()
	s := newSweep(t, c)
	s.recording = true
	played := s.undisturbed("the script, for the journal")
	if played == nil {
		return
	}
	s.recording = false
	for _, e := range s.entries {
		e.Result = played.result
	}
	update := os.Getenv(updateEnv) != ""
	dir := filepath.Join(journalDir, s.journal())
	recorded, err := readJournal(dir)
	if err != nil {
		t.Fatalf("sagatest: the journal cannot be read: %v", err)
	}
	ok, known := true, make(map[string]bool)
	for _, e := range recorded {
		ok = s.prove(e, update) && ok
		known[filepath.Join(filepath.Dir(e.path), e.name())] = true // a long name was another once
	}
	lacking := slices.DeleteFunc(s.entries, func(e *entry) bool {
		e.path = filepath.Join(dir, fmt.Sprint(e.Revision), e.name())
		e.updated = true
		return known[e.path]
	})
	switch {
	case !update:
		for _, e := range lacking {
			t.Errorf("sagatest: the journal of revision %d of %q lacks the suspension at %s.\n  what to do: run the test with %s=1 in the environment, and commit %s", e.Revision, e.Tool, e.waits(), updateEnv, e.path)
		}
	case !ok && len(lacking) > 0:
		t.Errorf("sagatest: nothing was written to the journal, as sagas that it has recorded cannot go on")
	case ok:
		for _, e := range append(recorded, lacking...) {
			if !e.updated {
				continue
			}
			if err := e.write(); err != nil {
				t.Fatalf("sagatest: the journal cannot be written: %v", err)
			}
			t.Logf("sagatest: wrote %s", e.path)
		}
	}
}

// journal is the name of the directory with the case's records.
func (s *sweep) journal() string {
	switch name := notInFiles.ReplaceAllString(s.c.Journal, "_"); {
	case name != "":
		return s.tool.Name + "@" + name
	case s.c.Fails:
		return s.tool.Name + "@fails"
	}
	return s.tool.Name
}

// prove resumes a recorded saga with the present code. It reports whether it ended
// as it must.
func (s *sweep) prove(e *entry, update bool) (ok bool) {
	s.t.Helper()
	name, _ := filepath.Rel(journalDir, e.path) // in which it is
	subtest(s.t, name, func(t testing.TB) {
		x := s.newTrial(t, fmt.Sprintf("a saga of revision %d waits for %s and goes on now", e.Revision, e.waits()))
		b := x.survives(e, update, nil)
		var awaits []tasks.Awaited
		for _, r := range x.rounds {
			awaits = append(awaits, r.awaits...)
		}
		if b == nil && len(awaits) > 0 {
			x = s.newTrial(t, x.name+", when all has happened that it will wait for")
			b = x.survives(e, update, awaits)
		}
		if ok = b == nil; !ok {
			t.Errorf("sagatest: broken rule: sagas under way survive a change of the tool\n  scenario: %s\n  recorded: %s\n  what happened: %s\n  what to do: %s", x.name, e.path, b.what, b.advice)
		}
	})
	return ok
}

const keepGoing = "sagas of that revision may be under way when this code is deployed. In a Machine, keep step functions and questions under their names (or list them in Renamed), raise Revision when the state's type changes and add an Upgrade; in a Flow, raise Revision with every change, and keep asking and doing what was asked and done, or list it in Renamed. If they are to be given up, set Case.Retired"

// recall answers by the present script, or else as the client did when the saga was
// recorded. So it answers what was asked then, of which only the id is known.
func (x *trial) recall(e *entry, a Asked) (Answer, bool) {
	if a.Kind != 0 {
		if scripted, ok := x.sweep.script.last(a.Question, x.times(a)); ok {
			return scripted, true
		}
	}
	return e.answer(a)
}

// last returns the n-th answer to a question, or the last if there are fewer.
func (s *script) last(question string, n int) (Answer, bool) {
	for ; n >= 0; n-- {
		if a, ok := s.find(question, n); ok && !a.leaves {
			return a, true
		}
	}
	return Answer{}, false
}

// survives continues a recorded saga with the present code, and says what is wrong with
// how that ended. The early events happen first.
func (x *trial) survives(e *entry, update bool, early []tasks.Awaited) *broken {
	pos, err := e.position()
	if err != nil {
		return &broken{what: err.Error(), advice: "restore the file"}
	}
	h, err := x.rig.host(x.rig.process(0, nil))
	if err != nil {
		return &broken{what: err.Error(), advice: "mend the definition"}
	}
	if e.Revision > h.tool.Revision {
		return &broken{what: fmt.Sprintf("it was recorded by revision %d, but the tool is of revision %d", e.Revision, h.tool.Revision), advice: "do not lower the revision"}
	}
	if err := h.tool.Rehearse(context.Background(), pos); err != nil {
		return &broken{what: fmt.Sprintf("what it had done cannot be done again in a new world: %v", err), advice: "let effects read the inputs of earlier revisions: rename no fields, and give an effect whose input has another meaning another name"}
	}
	x.rig.world.now() // what has changed is no turn's doing
	if reader, _ := h.Registry.Reader(h.tool.Target, e.Revision); reader == nil {
		return x.retire(e, h.tool, pos)
	}
	if err := h.tool.CheckAnswers(pos, nil); err != nil {
		return &broken{what: fmt.Sprintf("it cannot go on: %v", err), advice: keepGoing}
	}
	if x.last, err = x.rig.sealed(pos); err != nil {
		return &broken{what: err.Error(), advice: "keep less in the state"}
	}
	for _, w := range e.Waits {
		if !w.Event {
			x.last.Steps = append(x.last.Steps, steps.Step{ID: w.Step})
		}
	}
	x.rig.clock.at, x.latest = e.At, true
	x.client.recall = func(a Asked) (Answer, bool) { return x.recall(e, a) }
	for _, a := range early {
		x.early(a)
	}
	x.play()
	switch {
	case x.got.ended:
		return x.ended(e, update)
	case x.got.err != nil:
		return &broken{what: fmt.Sprintf("it cannot go on: %v", x.got.err), advice: keepGoing}
	}
	return &broken{what: x.broken[0].what, advice: "add the answer to the script; or else, " + keepGoing}
}

const undoLeft = "let Undo find out by the key and the recorded input what there is to undo"

// retire checks that a saga that is given up is undone.
func (x *trial) retire(e *entry, tool *engine.Program, pos *engine.Position) *broken {
	if e.Revision >= x.sweep.c.Retired {
		return &broken{what: fmt.Sprintf("revision %d is no longer read by revision %d of the tool", e.Revision, tool.Revision), advice: keepGoing}
	}
	out, err := tool.Abandon(context.Background(), pos, engine.Call{Why: "Retired."})
	if err == nil {
		err = out.Err
	}
	if err != nil {
		return &broken{what: fmt.Sprintf("it is given up, but cannot be undone: %v", err), advice: "keep declaring the effects of retired revisions, as long as their sagas may come back"}
	}
	if now := x.rig.world.now(); now != x.before {
		return &broken{what: "it is given up, but something is left of it:" + differ(x.before, now), advice: undoLeft}
	}
	x.t.Logf("sagatest: %s: undone, as Case.Retired says", e.path)
	return nil
}

// ended looks at the end of a saga that was resumed, which is to be as it was when it was recorded. An author who updates
// means another result.
func (x *trial) ended(recorded *entry, update bool) *broken {
	x.conclude()
	if b, ok := mistake(x.end.Err); ok {
		return &broken{what: b.what, advice: keepGoing}
	}
	x.broken = nil
	fails := x.sweep.c.Fails
	switch {
	case !x.checkGood(!fails):
		return &broken{what: x.broken[0].what, advice: keepGoing}
	case fails && x.after != x.before:
		return &broken{what: "it failed, as it did when it was recorded, but something is left of it:" + differ(x.before, x.after), advice: undoLeft}
	}
	x.check()
	switch {
	case x.result == recorded.Result:
	case update:
		recorded.Result, recorded.updated = x.result, true
	default:
		return &broken{what: "its result is another:" + differ(recorded.Result, x.result),
			advice: fmt.Sprintf("if the result is meant to be another, run the test with %s=1 in the environment; if it holds a time or a number that others count, set Case.Same; otherwise %s", updateEnv, keepGoing)}
	}
	return nil
}
