package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/content"
)

// A checkpoint is a position in the middle of a turn: resuming it runs the step
// function that was running again, or the flow, and what that had performed is found in the
// log instead of being performed again. Another kind is written before a failed saga is
// undone: from there on there is only the undo, or what was undone could be taken for done.

// saves is what a turn needs in order to write checkpoints.
type saves struct {
	// to is as in [Call].
	to func(context.Context, *Position) error
	// at is where the running step function began, but for the log.
	at Position
	// cut: an effect broke off without an end, by the end of the turn or by a panic. It is
	// to be performed again, so nothing that came after it is written down.
	cut bool
}

// running is what a position in the middle of a turn has besides.
type running struct {
	// now is the time of the turn. What runs again reads the same.
	now time.Time
	// undo: the saga has failed and is to be undone. The caller's result is kept.
	undo bool
}

// saveTo has the turn write checkpoints from here on; pos is its own.
func (tc *Turn) saveTo(to func(context.Context, *Position) error, pos *Position) {
	// As it is read from a position: its text may be in the input of an effect.
	tc.Now = tc.Now.Round(0).UTC()
	tc.saves = &saves{to: to, at: *pos}
	tc.saves.at.Wake, tc.saves.at.running = time.Time{}, &running{now: tc.Now}
}

// Goto begins another step function of a machine in the same turn, with the state that
// encode returns. encode is called only if that is to be written down.
func (tc *Turn) Goto(step string, encode func() (Ended, error)) error {
	tc.At(step)
	tc.mu.Lock()
	tc.log.mine = 0
	saves := tc.saves
	tc.mu.Unlock()
	if saves == nil {
		return nil
	}
	left, err := encode() // the author's
	if err != nil {
		return err
	}
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.over.Load() {
		return errOver
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

// performed is called when the end of an effect that this turn has performed is in its
// record; err is what the effect returned. It fails if the turn must not go on.
func (tc *Turn) performed(r *EffectRecord, err error) error {
	switch {
	case tc.saves == nil:
		return nil
	case r.status != effectUnknown:
		return tc.checkpoint()
	case tc.Err() != nil || errors.As(err, new(*PanicError)):
		tc.saves.cut = true
	}
	// It may be known when it is performed once more, so it is not written down by itself.
	return nil
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
	case tc.log.stopAtFinal:
		// Had the turn that is undone come this far, it would have been written down.
		tc.log.stopped = &stoppedError{where: "at what would be its next checkpoint"}
		tc.latched = tc.log.stopped
		return tc.latched
	}
	at := s.at
	at.log = tc.log.soFar()
	if tc.replay != nil {
		at.kept = tc.replay.soFar()
	}
	if err := tc.save(&at); err != nil {
		return err
	}
	tc.lost = false // no earlier run has come further
	return nil
}

func (tc *Turn) save(at *Position) error {
	defer tc.budget.wait()()
	if err := tc.saves.to(tc, at); err != nil {
		tc.halted = &HaltedError{err}
		tc.latched = tc.halted
		return tc.halted
	}
	return nil
}

// soFar returns a log that does not change when the turn continues.
func (l *effectLog) soFar() *effectLog {
	n := len(l.records)
	return &effectLog{records: l.records[:n:n], mine: l.mine}
}

// saveUndo writes down that the saga is to be undone, and then ends as out says, or breaks
// off if out is nil.
func (tc *Turn) saveUndo(out *Outcome) error {
	if tc.saves == nil || tc.log.stopAtFinal {
		return nil
	}
	at := tc.saves.at
	at.body = body{args: at.args, seen: at.seen, log: tc.log.soFar(), running: &running{now: tc.Now, undo: true}}
	at.secrets = nil
	if out != nil {
		result, err := jsonv2.Marshal(out.Result, jsonv2.FormatNilSliceAsNull(false))
		if err != nil {
			return fmt.Errorf("the result cannot be encoded: %w", err)
		}
		why := ""
		if out.Err != nil {
			why = out.Err.Error()
		}
		var flags byte
		if out.Disclosed {
			flags = 1
		}
		at.kept = append(appendBytes([]byte{flags}, why), result...)
	}
	return tc.save(&at)
}

// errBroken is why a saga is undone whose turn broke off.
var errBroken = errors.New("the turn broke off")

// goOnUndoing ends the saga that stands where saveUndo has left it.
func (t *Program) goOnUndoing(tc *Turn, pos *Position) (*Outcome, error) {
	var out *Outcome
	if len(pos.kept) > 0 {
		rd := reader{b: pos.kept}
		out = &Outcome{Disclosed: rd.take(1)[0] == 1, Result: new(content.Result)}
		if why := string(rd.bytes()); why != "" {
			out.Err = errors.New(why)
		}
		err := rd.err
		if err == nil {
			err = jsonv2.Unmarshal(rd.b, out.Result)
		}
		if err != nil {
			return nil, &PositionError{t.Name, fmt.Errorf("its result: %w", err)}
		}
	}
	undo, err := t.compensate(tc, pos.ID, tc.log, fence{acting: tc.acting, undoing: tc.undoing, end: Undoing{Outcome: out}})
	if halted := (*HaltedError)(nil); errors.As(err, &halted) {
		return nil, tc.halt(halted)
	}
	switch {
	case err != nil:
		return nil, t.unsettled(tc, err)
	case out == nil:
		return nil, &UndoneError{errBroken, undo}
	}
	out.addUndo(undo)
	return out, nil
}

// Flags of what only some positions have.
const (
	moreWake = 1 << iota
	moreRunning
	moreUndo
	moreParts
)

// appendMore encodes what only some positions have.
func (p *Position) appendMore(b []byte) []byte {
	var flags byte
	if !p.Wake.IsZero() {
		flags |= moreWake
	}
	if p.running != nil {
		flags |= moreRunning
		if p.running.undo {
			flags |= moreUndo
		}
	}
	var parts []byte
	if len(p.Parts) > 0 {
		var err error
		if parts, err = p.Parts.AppendJSON(nil); err == nil { // what cannot be encoded is in no result
			flags |= moreParts
		}
	}
	b = append(b, flags)
	if flags&moreWake != 0 {
		b = appendTime(b, p.Wake)
	}
	if flags&moreRunning != 0 {
		b = appendTime(b, p.running.now)
		mine := 0
		if p.log != nil {
			mine = p.log.mine
		}
		b = binary.AppendUvarint(b, uint64(mine))
	}
	if flags&moreParts != 0 {
		b = appendBytes(b, parts)
	}
	return b
}

// more is what only some positions have.
type more struct {
	wake    time.Time
	running *running
	mine    int
	parts   []byte
}

// readMore undoes appendMore.
func (r *reader) readMore() (m more) {
	flags := r.take(1)[0]
	if flags&moreWake != 0 {
		m.wake = r.time()
	}
	if flags&moreRunning != 0 {
		m.running = &running{now: r.time(), undo: flags&moreUndo != 0}
		m.mine = int(r.uvarint() & maxInt32)
	}
	if flags&moreParts != 0 {
		m.parts = r.bytes()
	}
	return m
}

const maxInt32 = 1<<31 - 1

// A time is encoded to the nanosecond, the zero time included.
func appendTime(b []byte, t time.Time) []byte {
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

func (r *reader) time() time.Time {
	seconds, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return time.Time{}
	}
	r.b = r.b[n:]
	return time.Unix(seconds, int64(r.uvarint()&maxInt32)).UTC()
}
