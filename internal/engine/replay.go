package engine

import (
	"fmt"
	"slices"
)

// admit is asked before a flow does something new. A run that replays a record of the
// same revision does nothing new before it has come to all that is recorded: what it
// did then would come between things that have happened. Once a run has suspended or
// diverged it does nothing new either. r is nil for a machine, which replays nothing.
func (r *Replay) admit(what, name string) error {
	switch {
	case r == nil:
		return nil
	case r.turn.latched != nil:
		return r.turn.latched
	}
	return r.diverges(r.checkReached(fmt.Sprintf("%s %q, which is new", what, name)))
}

// diverges ends the run with a divergence, or does nothing without one. A flow that
// does not return the error ends all the same.
func (r *Replay) diverges(err error) error {
	if err != nil && r != nil {
		r.diverged, r.turn.latched = err, err
	}
	return err
}

// checkReached reports a divergence if something that was recorded was not come to
// again. What older revisions recorded may be left over.
func (r *Replay) checkReached(came string) error {
	left := ""
	if i := slices.IndexFunc(r.rec.entries, func(e recordEntry) bool { return !e.reached && !e.old }); i >= 0 {
		left = fmt.Sprintf("question %q", r.rec.entries[i].id)
	} else if i := slices.IndexFunc(r.turn.log.records, func(e *EffectRecord) bool { return !e.reached && !e.old }); i >= 0 {
		left = fmt.Sprintf("effect %q", r.turn.log.records[i].name)
	} else if n := r.rec.counts.times; r.taken.times < n {
		left = fmt.Sprintf("%d calls of Now", n)
		came = fmt.Sprintf("after %d of them ", r.taken.times) + came
	} else if n := r.rec.counts.ids; r.taken.ids < n {
		left = fmt.Sprintf("%d calls of NewID and Rand", n)
		came = fmt.Sprintf("after %d of them ", r.taken.ids) + came
	}
	if left == "" {
		return nil
	}
	return &DivergedError{Recorded: left, Came: came}
}
