package durable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// An event has a document, which its handle or its key names. It has what was delivered first, and which rows wait for
// that. Both write it with compare and set: so a row that begins to wait finds what came before, and who delivers finds
// the row. The row gets that as an input in its log, as every answer.

// Errors of [Core.Deliver]. A value that does not fit is a *[ValueError].
var (
	// ErrNoEvent: the handle was not made for this ledger.
	ErrNoEvent = errors.New("there is no such event")
	// ErrEventOther: something else was delivered before, and counts, also when its saga has ended.
	ErrEventOther = errors.New("another value was delivered before, and the first one counts")
	// ErrEventGone: nothing waits for the event any more.
	ErrEventGone = errors.New("it is too late: nothing waits for the event any more")
)

// ValueError says that what was delivered is nothing that the tool waits for.
type ValueError struct{ Err error }

// Error implements error.
func (e *ValueError) Error() string { return "the value does not fit the event: " + e.Err.Error() }

// Unwrap returns why.
func (e *ValueError) Unwrap() error { return e.Err }

const (
	// keepEarly is how long what came early waits for a saga to ask for it, and keepLate how long it is remembered
	// that an event has happened, or was not waited for any longer.
	keepEarly = 24 * time.Hour
	keepLate  = 7 * 24 * time.Hour
	// maxPerKey is how many sagas may wait for the same key at the same time.
	maxPerKey = 100
	// timedOut is the answer to an event that has not happened in time.
	timedOut = `{"action":"timeout"}`
	// byEvent is who gives the answer to an event.
	byEvent = "event"
	// earlyAccount is on whose account is what came early.
	earlyAccount = "\x00early events"
)

// delivery is the document of an event.
type delivery struct {
	// Result is what was delivered first, as the event's answer has it; nil if nothing was. Over: nothing is taken any
	// more.
	Result []byte `cbor:"1,keyasint,omitempty"`
	Over   bool   `cbor:"2,keyasint,omitempty"`
	// Until is until when it is waited for; the zero time if nothing has waited yet. Rows do; a saga that its client
	// drives is none of them, as it looks by itself.
	Until time.Time  `cbor:"3,keyasint,omitzero"`
	Rows  []store.ID `cbor:"4,keyasint,omitempty"`
	// ByClient: such a saga has waited for it.
	ByClient bool `cbor:"5,keyasint,omitempty"`
	// Principal is who has waited first, and Tool, Revision and Question say by what schema a value is checked.
	Principal string `cbor:"9,keyasint,omitempty"`
	Tool      string `cbor:"6,keyasint,omitempty"`
	Revision  uint32 `cbor:"7,keyasint,omitempty"`
	Question  string `cbor:"8,keyasint,omitempty"`
	// Asked is the question that others answer, as it is asked; nil if it is an event.
	Asked []byte `cbor:"10,keyasint,omitempty"`
	// Row is that of the saga that asks it, as in an [Address].
	Row store.ID `cbor:"11,keyasint,omitzero"`
}

// Mark implements [turns.Memory].
func (c *Core) Mark(ctx context.Context) ([]byte, error) {
	if _, err := c.Identity(ctx); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(appendParts([]byte("mcpsaga mark 1"), c.rows.audience, string(c.identity.Load()[:])))
	return sum[:], nil
}

// Address is where an event is delivered.
type Address struct {
	Event Name
	// Row is that of the saga which has made the handle, which takes the event as long as it has not ended. It is zero for
	// a key, and for handles that do not name it.
	Row store.ID
}

// AtHandle returns the address that a handle names. It fails with [ErrNoEvent] if there is none.
func (c *Core) AtHandle(ctx context.Context, handle string) (Address, error) {
	mark, err := c.Mark(ctx)
	if err != nil {
		return Address{}, err
	}
	place, row, ok := engine.ReadHandle(handle, mark)
	if !ok {
		return Address{}, ErrNoEvent
	}
	return Address{c.atPlace(place), row}, nil
}

func (c *Core) atPlace(p engine.Place) Name { return c.DocumentName("event", string(p[:])) }

// AtKey returns the address of the event of a tool's that has a key.
func (c *Core) AtKey(target, event, key string) Address {
	return Address{Event: c.DocumentName("event key", target, event, key)}
}

// newSecret draws what the handles of the saga of a row are made of.
func (c *Core) newSecret(row store.ID) []byte { return append(c.Turns.NewSecret(), row[:]...) }

func (c *Core) awaits(p *engine.Program, pos *engine.Position) (list []tasks.Awaited) {
	for _, a := range p.Awaited(pos) {
		e := tasks.Awaited{ID: a.StepID, Event: c.EventOf(p, &a).Event, Until: a.Until, Message: a.Message, Question: a.Question}
		if a.Asked != nil {
			e.Asked, e.Place, e.Row = a.Asked, &a.Place, a.Row
		}
		list = append(list, e)
	}
	return list
}

// EventOf is the address of an event that a saga of a program waits for.
func (c *Core) EventOf(p *engine.Program, a *engine.Awaited) Address {
	switch {
	case a.Asked != nil:
		return Address{Event: c.atOthers(a.Place)}
	case a.Key != "":
		return c.AtKey(p.Target, a.Question, a.Key)
	}
	return Address{c.atPlace(a.Place), a.Row}
}

// Deliver gives an event a value, or rejects it: result is what its answer is to be. The first counts; the same again is
// nothing new. One that nothing waits for yet is kept for a day. early says that no saga has asked for the event yet.
func (c *Core) Deliver(ctx context.Context, at Address, result json.RawMessage) (early bool, err error) {
	if result, err = jsonview.Canonical(result, jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return false, &ValueError{err}
	}
	found, err := ReadDocument[delivery](ctx, c, at.Event)
	if err == nil {
		_, err = c.takes(ctx, at, &found.Value)
	}
	if err == nil {
		found, err = changeDocument(ctx, c, at.Event, found, func(d *delivery, _ bool) (*kept, error) { return c.receive(d, result) })
	}
	if errors.Is(err, errHeard) { // who delivers it again need not give back anything, unless another was faster just now
		if found, err = ReadDocument[delivery](ctx, c, at.Event); err == nil && found.Value.Result != nil && !bytes.Equal(found.Value.Result, result) {
			err = ErrEventOther
		}
		return false, err
	}
	if err != nil {
		return false, err
	}
	d := &found.Value
	// Also if it was delivered before: who did that may not have come so far.
	if err = c.tellRows(ctx, at.Event, d); err == nil && at.Row != (store.ID{}) {
		_, err = c.takes(ctx, at, d) // it may have ended since it was looked at
	}
	return d.Until.IsZero(), err
}

// receive takes in what was delivered, within a change of the document.
func (c *Core) receive(d *delivery, result []byte) (*kept, error) {
	switch {
	case bytes.Equal(d.Result, result):
		return nil, nil
	case d.Result != nil:
		return nil, ErrEventOther
	case d.Over, !d.Until.IsZero() && !c.clock.now().Before(d.Until):
		return nil, ErrEventGone
	}
	if program, _ := c.Turns.ProgramOf(d.Tool, d.Revision); program != nil && d.Question != "" {
		if err := program.CheckEvent(d.Question, result); err != nil {
			return nil, &ValueError{err}
		}
	}
	d.Result = result
	return d.kept(c.clock.now()), nil
}

// kept is for whom the document is kept, and until when.
func (d *delivery) kept(now time.Time) *kept {
	if d.Until.IsZero() {
		return &kept{principal: earlyAccount, until: now.Add(keepEarly)}
	}
	// Its saga counts. Once it has happened, it is only remembered, lest it happens again.
	return &kept{principal: d.Principal, until: later(d.Until, now).Add(keepLate), uncounted: true, over: d.Result != nil}
}

// stillWaits fails with [ErrEventGone] if all sagas have ended that have waited for an event which has not happened.
func (c *Core) stillWaits(ctx context.Context, d *delivery) error {
	if d.Result != nil || d.ByClient || len(d.Rows) == 0 {
		return nil
	}
	for _, id := range d.Rows {
		if waits, err := c.rowWaits(ctx, id); waits || err != nil {
			return err
		}
	}
	return ErrEventGone
}

// tellRows has the sagas go on that wait for an event which has happened.
func (c *Core) tellRows(ctx context.Context, name Name, d *delivery) error {
	for _, id := range d.Rows {
		find := func() (*row, error) { return c.loadReadable(ctx, id) }
		_, err := c.input(ctx, find, func(r *row) (*event, bool, error) { return r.happened(name, d) })
		if errors.Is(err, store.ErrTooLarge) { // a worker finds the same, and ends the saga
			_, err = c.input(ctx, find, func(r *row) (input *event, run bool, err error) {
				if input, _, err = r.happened(name, d); input != nil {
					input = &event{kind: kindRenew}
				}
				return input, true, err
			})
		}
		if err != nil && !errors.Is(err, tasks.ErrNotFound) { // it was there just now
			return err
		}
	}
	return nil
}

// happened is the input of a row for an event that has happened; nil if it does not wait for it, or asks others in other
// words than they have answered. run says that it then waits for nothing.
func (r *row) happened(name Name, d *delivery) (input *event, run bool, err error) {
	if r.Status.Over() || r.Undoing != nil || isOver(r, r.now()) {
		return nil, false, nil
	}
	answers := slices.Clip(r.Stand.Answers)
	for _, e := range r.events() {
		if e.Event == name && bytes.Equal(e.Asked, d.Asked) {
			answers = append(answers, steps.Answer{StepID: e.ID, Result: d.Result, By: answeredBy(d.Result)})
		}
	}
	given := answers[len(r.Stand.Answers):]
	if len(given) == 0 {
		return nil, false, nil
	}
	next := *r
	next.Stand.Answers = answers
	return &event{kind: kindAnswer, body: body{Answers: given}}, !next.waits(), nil
}

// happenedOf are those of the answers that are events': a client may send others under their ids.
func happenedOf(answers []steps.Answer) []steps.Answer { return filter(answers, isOutside) }

func isOutside(a steps.Answer) bool { return a.By == byEvent || strings.HasPrefix(a.By, byPerson) }

// events are what the row waits for from outside.
func (r *row) events() []tasks.Awaited {
	happened := happenedOf(r.Stand.Answers)
	return filter(r.Stand.Events, func(e tasks.Awaited) bool { return !hasAnswer(happened, e.ID) })
}

// waits reports whether the row waits for its client, or for an event.
func (r *row) waits() bool { return len(r.theirs()) > 0 || len(r.events()) > 0 }

// registerOne has the document of an event say that a saga waits for it: a row, or one that its client drives if that is nil. It
// returns the answer; nil as long as there is none.
func (c *Core) registerOne(ctx context.Context, principal string, row *store.ID, p *engine.Program, e *tasks.Awaited) (*steps.Answer, error) {
	found, err := ReadDocument[delivery](ctx, c, e.Event)
	if err == nil {
		err = c.announce(ctx, e, &found.Value)
	}
	if err != nil {
		return nil, err
	}
	var ended []store.ID // of a full list, to be left out of it for this row
	if rows := found.Value.Rows; len(rows) >= maxPerKey && row != nil && !slices.Contains(rows, *row) {
		if ended, err = c.endedOf(ctx, rows); err != nil {
			return nil, err
		}
	}
	now := c.clock.now()
	found, err = changeDocument(ctx, c, e.Event, found, func(d *delivery, _ bool) (*kept, error) {
		if early := d.Until.IsZero(); early && d.Result != nil && p.CheckEvent(e.Question, d.Result) != nil {
			c.Turns.Log.WarnContext(ctx, "what was delivered early does not fit the event, and is ignored", "tool", p.Name, "event", e.Question)
			d.Result = nil
		}
		changed, err := d.await(now, row, e, ended)
		if err != nil || !changed {
			return nil, err
		}
		d.Principal, d.Tool, d.Revision, d.Question = principal, p.Target, p.Revision, e.Question
		return d.kept(now), nil
	})
	switch {
	case err != nil:
		return nil, err
	case found.Value.Result != nil:
		return &steps.Answer{StepID: e.ID, Result: found.Value.Result, By: answeredBy(found.Value.Result)}, nil
	case !now.Before(e.Until):
		return &steps.Answer{StepID: e.ID, Result: json.RawMessage(timedOut), By: byEvent}, nil
	}
	return nil, nil
}

// endedOf are those of the rows that wait no more.
func (c *Core) endedOf(ctx context.Context, rows []store.ID) (ended []store.ID, err error) {
	for _, id := range rows {
		waits, err := c.rowWaits(ctx, id)
		if err != nil {
			return nil, err
		}
		if !waits {
			ended = append(ended, id)
		}
	}
	return ended, nil
}

// rowWaits reports whether a row may still wait for events.
func (c *Core) rowWaits(ctx context.Context, id store.ID) (bool, error) {
	r, err := c.loadReadable(ctx, id)
	return r != nil && !r.Status.Over() && !r.Cancelled && r.Undoing == nil, err
}

// loadReadable returns a row, or nil if there is none that can be read here.
func (c *Core) loadReadable(ctx context.Context, id store.ID) (*row, error) {
	r, err := c.rows.load(ctx, id)
	if errors.Is(err, ErrUnreadable) {
		return nil, nil
	}
	return r, err
}

// await has the document say that a saga waits for the event: a row, or one that its client drives if that is nil. It
// reports whether that says anything new.
func (d *delivery) await(now time.Time, row *store.ID, e *tasks.Awaited, ended []store.ID) (changed bool, err error) {
	before := d.Until
	reworded := !bytes.Equal(d.Asked, e.Asked)
	if reworded { // what was answered was another question
		d.Asked, d.Row, d.Result = e.Asked, e.Row, nil
	}
	reopened := d.Over && d.Result == nil && now.Before(e.Until) // it was for those that waited before
	d.Over = d.Over && !reopened
	left := slices.DeleteFunc(slices.Clone(d.Rows), func(id store.ID) bool { return slices.Contains(ended, id) })
	known := row == nil && d.ByClient || row != nil && slices.Contains(d.Rows, *row)
	switch {
	case known:
	case row == nil:
		d.ByClient = true
	case d.Result != nil, !now.Before(e.Until): // there is nothing to wait for
	case len(left) >= maxPerKey:
		return false, fmt.Errorf("%d sagas wait for the same key of the event", maxPerKey)
	default:
		d.Rows = append(left, *row)
	}
	d.Until = later(d.Until, e.Until)
	closes := d.Result == nil && !now.Before(d.Until) && !d.Over
	d.Over = d.Over || closes
	return !known || reworded || reopened || closes || !d.Until.Equal(before), nil
}

// Register implements [turns.Memory].
func (c *Core) Register(ctx context.Context, principal string, p *engine.Program, pos *engine.Position) (answers []steps.Answer, err error) {
	if !pos.Awaits() {
		return nil, nil
	}
	for _, e := range c.awaits(p, pos) {
		a, err := c.registerOne(ctx, principal, nil, p, &e)
		if err != nil {
			return nil, err
		}
		if a != nil {
			answers = append(answers, *a)
		}
	}
	return answers, nil
}
