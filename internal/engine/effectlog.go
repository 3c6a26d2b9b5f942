package engine

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// effectLog lists a saga's effects in the order in which they were begun.
type effectLog struct {
	records []*EffectRecord
	// used counts, by name, the effects that this run has come to.
	used map[string]int
	// stopAtFinal: the saga is being cancelled, so a turn that comes to an
	// irreversible effect ends before it, with stopped.
	stopAtFinal bool
	stopped     *stoppedError
}

// stoppedError is the end of a turn that is run only to be undone.
type stoppedError struct{ effect string }

func (e *stoppedError) Error() string {
	return fmt.Sprintf("the saga is being cancelled and stops before the effect %q", e.effect)
}

// EffectRecord is one effect as it travels in the token.
type EffectRecord struct {
	name   string
	n      int // counts the effects of this name, from 0
	status effectStatus
	in     sagahooks.Value
	// out is the result if done; else its JSON is what the error said.
	out sagahooks.Value
	// reached: this run has come to it.
	reached bool
	// old: an earlier revision performed it, so the present one may leave it.
	old bool
}

type effectStatus byte

const (
	effectUnknown effectStatus = iota // begun
	effectDone
	effectRefused

	effectOld = 0x80 // flag beside the status
)

// logOf returns a position's effects as a log that can be continued without changing
// that one.
func (t *Program) logOf(pos *Position) *effectLog { return pos.log.copy(pos.Revision != t.Revision) }

// copy is logOf; old says that an earlier revision wrote the log.
func (l *effectLog) copy(old bool) *effectLog {
	c := new(effectLog)
	if l == nil {
		return c
	}
	c.records = make([]*EffectRecord, len(l.records))
	for i, r := range l.records {
		mine := *r
		mine.reached, mine.old = false, r.old || old
		c.records[i] = &mine
	}
	return c
}

// resume makes the next effect of each name a new one: a step machine does not
// come to its old ones again.
func (l *effectLog) resume() {
	for _, r := range l.records {
		l.count(r.name)
	}
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
func (l *effectLog) find(name string, in sagahooks.Value) (r *EffectRecord, n int, err error) {
	n = l.count(name)
	for _, r := range l.records {
		if r.name != name || r.n != n {
			continue
		}
		r.reached = true
		if !r.in.Equal(in) {
			was, is := differs(r.in, in)
			return nil, n, &DivergedError{
				Recorded: fmt.Sprintf("effect %q (number %d) with %s", name, n+1, was),
				Came:     fmt.Sprintf("the same effect with %s", is),
			}
		}
		return r, n, nil
	}
	return nil, n, nil
}

// begin records an effect before it is performed.
func (l *effectLog) begin(name string, n int, in sagahooks.Value) *EffectRecord {
	r := &EffectRecord{name: name, n: n, in: in, reached: true}
	l.records = append(l.records, r)
	return r
}

// clip shortens what goes into a log message.
func clip(b []byte) string {
	if len(b) > 80 {
		return string(b[:80]) + "…"
	}
	return string(b)
}

// readable reports whether the tool's effects can read what they have recorded. It is
// found out before any code runs: a saga must not learn half-way that it could not be
// undone. What is not declared any more is for the undo to report.
func (t *Program) readable(l *effectLog) error {
	for _, r := range l.records {
		if d := t.effects[r.name]; d != nil {
			if err := d.Readable(r); err != nil {
				return fmt.Errorf("effect %q: %w", r.name, err)
			}
		}
	}
	return nil
}

func (l *effectLog) append(b []byte) []byte {
	if l == nil {
		return append(b, 0)
	}
	b = appendUvarint(b, len(l.records))
	for _, r := range l.records {
		status := byte(r.status)
		if r.old {
			status |= effectOld
		}
		b = append(b, status)
		b = appendBytes(b, r.name)
		b = appendUvarint(b, r.n)
		b = appendBytes(b, r.in.JSON)
		b = appendBytes(b, r.out.JSON)
	}
	return b
}

func readEffects(r *reader) *effectLog {
	n := r.count(4)
	if n == 0 {
		return nil
	}
	l := &effectLog{records: make([]*EffectRecord, n)}
	for i := range l.records {
		status := r.byte()
		e := &EffectRecord{status: effectStatus(status &^ effectOld), old: status&effectOld != 0, name: r.string(), n: r.int(), in: sagahooks.Value{JSON: r.bytes()}, out: sagahooks.Value{JSON: r.bytes()}}
		l.records[i] = e
	}
	return l
}
