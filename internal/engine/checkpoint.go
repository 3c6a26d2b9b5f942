package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A checkpoint is a position in the middle of a turn: resuming it runs the step
// function that was running again, or the flow, and what that had performed is found in the
// log instead of being performed again.

// saves is what a turn needs in order to write checkpoints.
type saves struct {
	// at is where the running step function began, but for the log.
	at Position
	// cut: an effect broke off without an end, by the end of the turn or by a panic. It is
	// to be performed again, so nothing that came after it is written down.
	cut bool
	// due: it is known how an effect has ended, and not written down.
	due bool
}

// Goto begins another step function of a machine in the same turn, with the state that
// encode returns. encode is called only if that is to be written down.
func (tc *Turn) Goto(step string, encode func() (Ended, error)) error {
	tc.At(step)
	tc.mu.Lock()
	tc.log.mine = 0
	saves, dropped := tc.saves, tc.dropped()
	tc.mu.Unlock()
	if saves == nil || dropped != nil {
		return dropped
	}
	left, err := encode() // the author's
	if err != nil {
		return err
	}
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.over != nil {
		return tc.over
	}
	at := &saves.at
	at.next, at.kept, at.apart, at.secrets, at.Revision = step, left.Kept, left.Apart, left.Secrets, tc.program.Revision
	return tc.checkpoint()
}

// leftOut fails if a step function that runs again has not come to all effects that it had
// performed, and comes to what is new.
func (tc *Turn) leftOut(came, name string) error {
	records := tc.log.records
	for _, r := range records[len(records)-tc.log.mine:] {
		if r.reached || r.Old {
			continue
		}
		if name != "" {
			came = fmt.Sprintf("%s %q, which is new", came, name)
		}
		return tc.diverges(&DivergedError{Recorded: fmt.Sprintf("effect %q", r.name), Came: came})
	}
	return nil
}

// ended is called when the end of an effect that this turn has performed is in its
// record; err is what the effect returned.
func (s *saves) ended(turn context.Context, r *EffectRecord, err error) {
	if s == nil {
		return
	}
	over := turn.Err()
	switch {
	case over != nil && (r.Unknown() || errors.Is(err, over)), errors.As(err, new(*PanicError)):
		s.cut = true
	case !r.Unknown(): // else it may be known when it is performed once more, so it is not written down by itself
		s.due = true
	}
}

// Performed is called when all effects have ended that were performed at the same time. It fails if the turn must not
// go on.
func (tc *Turn) Performed() error {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.over != nil || tc.saves == nil || !tc.saves.due {
		return tc.over
	}
	return tc.checkpoint()
}

// checkpoint hands the present position to the driver of the saga. If that fails the turn
// has ended.
func (tc *Turn) checkpoint() error {
	s := tc.saves
	switch {
	case s.cut:
		return nil
	case tc.halted != nil:
		return tc.halted
	case tc.probe != nil:
		// Had the turn that is undone come this far, it would have been written down.
		return tc.stop("at what would be its next checkpoint", false)
	}
	at := s.at
	at.log = effectLog{records: slices.Clip(tc.log.records), mine: tc.log.mine} // which does not change when the turn continues
	if tc.replay != nil {
		at.kept = tc.replay.soFar()
	}
	s.due = false
	defer tc.limit.wait()()
	if err := tc.Checkpoint(tc, &at); err != nil {
		return tc.halt(&HaltedError{err})
	}
	tc.finals = 0
	tc.Lost = false // no earlier run has come further
	return nil
}
