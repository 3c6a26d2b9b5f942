package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// Effect is an effect of a program. Its types are known behind it only.
type Effect interface {
	// Declaration is what its author says of it.
	Declaration() Declaration
	// Undo undoes what r records. It fails with [ErrNothingToUndo] if the effect has no
	// Undo, and with a *[FinalError] if what was done can no longer be undone. Each try is a
	// call of each.
	Undo(ctx context.Context, key string, r *EffectRecord, each Bound) error
	// Readable reports whether the present types can read what r records.
	Readable(r *EffectRecord) error
	// Input is what r records as the input, as the present types encode it.
	Input(r *EffectRecord) (sagahooks.Value, error)
	// Redo performs again what r records. It fails with [ErrNothingToUndo] if that is refused. Each try is a call of
	// each, if that is not nil.
	Redo(ctx context.Context, key string, r *EffectRecord, each Bound) error
	// Stage encodes an input and a result that a test supplies.
	Stage(p sagahooks.Performed) (in, out sagahooks.Value, err error)
}

// Bound calls code and does not wait for it much longer than ctx says; see [Within].
type Bound func(ctx context.Context, f func() error) error

// Declaration is what the engine knows of an effect apart from its types.
type Declaration struct {
	// Name is the effect's, Self what its author declared: another effect may have the
	// same name.
	Name string
	Self any
	// Undoable says that it has an Undo.
	Irreversible, Undoable, ReadOnly bool
	// BuildsOn are the names and selves of other effects.
	BuildsOn []Declaration
	// Problem says why it cannot be registered, or is empty.
	Problem string
	// Unrecordable says why its types cannot be recorded, or is nil.
	Unrecordable error
}

// effectLog lists a saga's effects in the order in which they were begun.
type effectLog struct {
	records []*EffectRecord
	// before is how many of them were begun before this turn.
	before int
	// mine is how many of the last of them belong to the step function that runs, which
	// comes to them again if it has to run again.
	mine int
	// used counts, by name, the effects that this run has come to.
	used map[string]int
}

// EffectRecord is one effect as it travels in the token.
type EffectRecord struct {
	name   string
	n      int // counts the effects of this name, from 0
	status effectStatus
	// In is what the effect was given, Out its result if it is done; else the JSON of Out is
	// what the error said.
	In, Out sagahooks.Value
	// kinds say what the error was, beside its text: see [kindsOf].
	kinds []string
	// reached: this run has come to it.
	reached bool
	// repeated: it may have been performed before in this turn.
	repeated bool
	// Old: an earlier revision performed it. The present one may leave it, and its types may
	// lack what is recorded.
	Old bool
}

type effectStatus byte

const (
	effectUnknown effectStatus = iota // begun
	effectDone
	effectRefused
	// effectRefusedAgain was refused when a turn was repeated whose worker was lost, which may
	// have performed it. Should the saga be undone, its Undo finds out.
	effectRefusedAgain

	// Flags beside the status. effectKinds: Out begins with the kinds of a failure.
	effectOld   = 0x80
	effectKinds = 0x40
)

// logOf returns a position's effects as a log that can be continued without changing
// that one. The next effect of each name is a new one, as a step machine does not come to its
// old ones again; but for those of the step function that runs again.
func (t *Program) logOf(pos *Position) *effectLog {
	n := len(pos.log.records)
	l := &effectLog{records: make([]*EffectRecord, n), before: n, mine: pos.log.mine}
	for i, r := range pos.log.records {
		mine := *r
		mine.reached, mine.Old = false, r.Old || pos.Revision != t.Revision
		l.records[i] = &mine
		if i < n-l.mine {
			l.count(r.name)
		}
	}
	return l
}

// unknown returns the first effect of this turn of which it is not known whether it was performed,
// or nil.
func (tc *Turn) unknown() *EffectRecord {
	tried := tc.log.records[tc.log.before:]
	if at, stopped := tc.latched.(*stoppedError); stopped && at.untried {
		tried = tried[:len(tried)-1]
	}
	for _, r := range tried {
		if r.Unknown() {
			return r
		}
	}
	return nil
}

func (l *effectLog) count(name string) int {
	if l.used == nil {
		l.used = make(map[string]int)
	}
	l.used[name]++
	return l.used[name] - 1
}

// find returns the record of the next effect of that name if it was begun in an
// earlier turn. Otherwise r is nil, and n is the number of the effect to begin.
func (l *effectLog) find(name string, in sagahooks.Value, e Effect) (r *EffectRecord, n int, err error) {
	n = l.count(name)
	for _, r := range l.records {
		if r.name != name || r.n != n {
			continue
		}
		r.reached = true
		if !r.In.Equal(in) && !encodesTo(e, r, in) {
			was, is := differs(r.In, in)
			return nil, n, &DivergedError{
				Recorded: fmt.Sprintf("effect %q (number %d) with %s", name, n+1, was),
				Came:     fmt.Sprintf("the same effect with %s", is),
				input:    true,
			}
		}
		return r, n, nil
	}
	return nil, n, nil
}

// encodesTo reports whether an input that was recorded is the same by the present types, which may have more fields.
func encodesTo(e Effect, r *EffectRecord, in sagahooks.Value) bool {
	if e == nil {
		return false
	}
	now, err := e.Input(r)
	return err == nil && now.Equal(in)
}

func clip(b []byte) string {
	if len(b) > 80 {
		return string(b[:80]) + "…"
	}
	return string(b)
}

func (l *effectLog) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l.records)))
	for _, r := range l.records {
		status := byte(r.status)
		if r.Old {
			status |= effectOld
		}
		if len(r.kinds) > 0 {
			status |= effectKinds
		}
		b = append(b, status)
		b = appendBytes(b, r.name)
		b = binary.AppendUvarint(b, uint64(r.n))
		b = appendBytes(b, r.In.JSON)
		if len(r.kinds) > 0 {
			b = binary.AppendUvarint(b, uint64(len(r.kinds)))
			for _, kind := range r.kinds {
				b = appendBytes(b, kind)
			}
		}
		b = appendBytes(b, r.Out.JSON)
	}
	return b
}

func readEffects(r *reader) effectLog {
	l := effectLog{records: make([]*EffectRecord, r.count(4))}
	for i := range l.records {
		status := r.take(1)[0]
		e := &EffectRecord{status: effectStatus(status &^ (effectOld | effectKinds)), Old: status&effectOld != 0, name: string(r.bytes()), n: int(r.uvarint() & math.MaxInt32), In: sagahooks.Value{JSON: r.bytes()}}
		if status&effectKinds != 0 {
			e.kinds = make([]string, r.count(1))
			for k := range e.kinds {
				e.kinds[k] = string(r.bytes())
			}
		}
		e.Out = sagahooks.Value{JSON: r.bytes()}
		l.records[i] = e
	}
	return l
}

// Effect returns the declared effect of that name, or nil.
func (tc *Turn) Effect(name string) Effect { return tc.program.effects[name] }

// Begin is called before an effect is performed. If it was begun in an earlier turn,
// r is its record, and there is nothing more to do. Otherwise its record is a new one:
// the effect is to be performed with key, and its end is for [Turn.Succeeded] or [Turn.Failed].
func (tc *Turn) Begin(d Declaration, input sagahooks.Value) (r *EffectRecord, key string, err error) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if err := cmp.Or(tc.over, tc.latched); err != nil {
		if world := sagahooks.From(tc); world != nil && errors.As(err, new(*suspended)) {
			world.Late(d.Name, false)
		}
		return nil, "", err
	}
	r, n, err := tc.log.find(d.Name, input, tc.Effect(d.Name))
	if err != nil {
		return nil, "", tc.diverges(err)
	}
	if r != nil {
		return r, "", nil
	}
	if tc.replay != nil {
		err = tc.replay.admit("effect", d.Name)
	} else {
		err = tc.leftOut("effect", d.Name)
	}
	if err != nil {
		return nil, "", err
	}
	final := d.Irreversible && !d.Undoable
	if final {
		tc.finals++
	}
	r = &EffectRecord{name: d.Name, n: n, In: input, reached: true, repeated: tc.Lost}
	stops := tc.stopsBefore(d)
	if !stops {
		if err := tc.mayAct(r, final); err != nil {
			return nil, "", err
		}
	}
	if !stops || d.Undoable { // else nothing can tell whether it was performed
		tc.log.records = append(tc.log.records, r)
		tc.log.mine++
	}
	if stops {
		return nil, "", tc.stop(fmt.Sprintf("before the effect %q", d.Name), d.Undoable)
	}
	return r, effectKey(tc.ID, d.Name, r.n), nil
}

// stopsBefore reports whether a turn that only finds out what an earlier one did ends before an effect, which cannot be
// taken back and was not recorded.
func (tc *Turn) stopsBefore(d Declaration) bool {
	// An Undo finds out whether it was performed; without one, the earlier turn may have begun so many.
	return tc.probe != nil && d.Irreversible && (d.Undoable || tc.Final != nil && tc.finals > tc.Finals)
}

// mayAct fails, and ends the turn, if the driver of the saga does not want it to do anything. r is the effect that is to
// begin, if it is one.
func (tc *Turn) mayAct(r *EffectRecord, final bool) error {
	if tc.halted != nil {
		return tc.halted
	}
	if tc.refused = tc.dropped(); tc.refused != nil {
		return tc.refused
	}
	defer tc.limit.wait()()
	var err error
	if final && tc.Final != nil && tc.probe == nil {
		if err = tc.Final(tc, tc.finals); err != nil {
			err = &HaltedError{err}
		}
	} else {
		err = tc.act(tc)
	}
	if err == nil && r != nil && tc.Begins != nil {
		log := effectLog{records: append(slices.Clip(tc.log.records), r)}
		if err = tc.Begins(tc, tc.program.toCancel(tc.ID, &log)); err != nil {
			err = &HaltedError{err}
		}
	}
	if err == nil { // the driver may have found out just now
		tc.refused = tc.dropped()
		return tc.refused
	}
	return tc.halt(err)
}

// halt ends the turn, as far as the engine is concerned, if err is an error.
func (tc *Turn) halt(err error) error {
	if err != nil {
		tc.halted, tc.latched = err, err
	}
	return err
}

// Succeeded records that the effect was performed. It fails if the turn must not go on. [Turn.Performed] is to follow.
func (tc *Turn) Succeeded(r *EffectRecord, output sagahooks.Value) error {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.over != nil {
		return tc.over
	}
	r.status, r.Out = effectDone, output
	tc.saves.ended(tc, r, nil)
	return nil
}

// Unknown reports whether it is not known if the effect was performed.
func (r *EffectRecord) Unknown() bool { return r.status == effectUnknown }

// Done reports whether the effect was performed.
func (r *EffectRecord) Done() bool { return r.status == effectDone }

// effectKey derives the key of the n-th effect of a name in a saga.
func effectKey(saga [16]byte, name string, n int) string {
	h := sha256.New()
	h.Write([]byte("mcpsaga effect 1\x00"))
	h.Write(saga[:])
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
	h.Write([]byte(name))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// EffectCall is a try of an effect's Do or Undo.
type EffectCall struct {
	// Name is the effect's, Key its idempotency key.
	Name, Key string
	// Undo: it is Undo that is called.
	Undo bool
	// Attempt counts the tries in this turn, from 1.
	Attempt int
}

// EffectHook is called around every try of an effect. An error of its own, without having
// called next, is as one of Do or Undo. It calls next once at most, not after it has returned, and does not panic.
type EffectHook func(ctx context.Context, c EffectCall, next func(context.Context) error) error

type effectHookKey struct{}

// WithEffectHook returns a context in which turns have h called around effects.
func WithEffectHook(ctx context.Context, h EffectHook) context.Context {
	return context.WithValue(ctx, effectHookKey{}, h)
}

// EffectHookOf returns the hook of a turn's context, or nil.
func EffectHookOf(ctx context.Context) EffectHook {
	h, _ := ctx.Value(effectHookKey{}).(EffectHook)
	return h
}
