package durable

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A question that others answer than the caller of its saga is an event whose document has the question. Beside it there
// is a document for each name that may answer, by which these find what waits for them. It is written first, and ends
// last: what it leads to may be over, and then it is taken away by who comes upon it.

const (
	// byPerson begins who gives the answer of a person, with name and address.
	byPerson = "person "
	// keepWaiting is how long the entries of lists outlive what they lead to, at most.
	keepWaiting = time.Hour
	// maxLooked is how many entries of a list are looked at, at most, to find those that wait, and maxPassed how many are
	// passed over that were taken off.
	maxLooked = 200
	maxPassed = 10 * pageSize
)

// Asked is a question that others answer.
type Asked struct {
	// Name is that of its page. Principal has called the Program, which is nil if it is not served here.
	Name, Principal string
	Program         *engine.Program
	Tool            string
	// Step is what is asked, and by whom it may be answered until when.
	Step        steps.Step
	By          []string
	AllowCaller bool
	Until       time.Time
	// Open: it is waited for. Else Action, Who and At say how it was answered, unless it was not.
	Open        bool
	Action, Who string
	At          time.Time

	place engine.Place
}

// entry is an entry of a list of what waits for people.
type entry struct {
	Place engine.Place `cbor:"1,keyasint"`
}

func (c *Core) atOthers(p engine.Place) Name { return c.DocumentName("question", string(p[:])) }

func (c *Core) entryOf(by string, p engine.Place) Name {
	return c.DocumentName("waiting", by, string(p[:]))
}

// listOf is the account of the entries of those that have a name.
func listOf(by string) string { return "\x00waiting for " + by }

// answeredBy says who has given an answer that came from outside.
func answeredBy(result []byte) string {
	who, _ := jsonview.String(jsonview.Get(result, "by"))
	from, _ := jsonview.String(jsonview.Get(result, "from"))
	switch {
	case who == "":
		return byEvent
	case from == "":
		return byPerson + who
	}
	return byPerson + who + " from " + from
}

func namesOf(asked []byte) []string {
	names, _ := jsonview.Strings(jsonview.Get(asked, "by"))
	return names
}

// announce has the lists of those who may answer a question show it, unless its document says that they do; an event is in none.
func (c *Core) announce(ctx context.Context, e *tasks.Awaited, d *delivery) error {
	if e.Asked == nil || bytes.Equal(d.Asked, e.Asked) && !d.Over && !d.Until.Before(e.Until) {
		return nil
	}
	for _, by := range namesOf(e.Asked) {
		if err := c.list(ctx, by, *e.Place, e.Until.Add(keepWaiting)); err != nil {
			return err
		}
	}
	return nil
}

// list keeps the entry of a question until then, which may be now.
func (c *Core) list(ctx context.Context, by string, at engine.Place, until time.Time) error {
	_, err := changeDocument(ctx, c, c.entryOf(by, at), nil, func(e *entry, exists bool) (*kept, error) {
		if !exists && !until.After(c.clock.now()) {
			return nil, nil
		}
		e.Place = at
		return &kept{principal: listOf(by), until: until, uncounted: true}, nil // its saga counts
	})
	return err
}

// unlist takes a question off the lists. What cannot be taken off now is by who looks at the list.
func (c *Core) unlist(ctx context.Context, by []string, at engine.Place) {
	for _, name := range by {
		_ = c.list(ctx, name, at, c.clock.now())
	}
}

// HasGoneOn implements [turns.Memory].
func (c *Core) HasGoneOn(ctx context.Context, principal string, saga tokens.ID, turn uint32) (bool, error) {
	r, err := c.rows.load(ctx, c.rows.sagaID(principal, saga))
	return r != nil && (r.Status.Over() || r.Client == nil || r.Client.Turn != nil || r.Client.At > turn), err
}

// Withdraw implements [turns.Memory].
func (c *Core) Withdraw(ctx context.Context, principal string, p *engine.Program, pos *engine.Position) {
	if r, err := c.rows.load(ctx, c.rows.sagaID(principal, pos.ID)); err != nil || r != nil && !r.Status.Over() {
		return // it continues as a task
	}
	for _, e := range c.awaits(p, pos) {
		if e.Asked == nil {
			continue
		}
		_, err := changeDocument(ctx, c, e.Event, nil, func(d *delivery, exists bool) (*kept, error) {
			if !exists || d.Over || !bytes.Equal(d.Asked, e.Asked) {
				return nil, nil
			}
			d.Over = true
			return d.kept(c.clock.now()), nil
		})
		if err == nil {
			c.unlist(ctx, namesOf(e.Asked), *e.Place)
		}
	}
}

// FindAsked returns the question whose page has that name. It fails with [tasks.ErrNotFound] if there is none.
func (c *Core) FindAsked(ctx context.Context, name string) (*Asked, error) {
	mark, err := c.Mark(ctx)
	if err != nil {
		return nil, c.report(ctx, "page", err)
	}
	place, _, ok := engine.ReadHandle(name, engine.PageMark(mark))
	if !ok {
		return nil, tasks.ErrNotFound
	}
	return c.askedAt(ctx, place, mark)
}

// askedAt returns the question that is asked at a place, and whether it is still open. If it was answered, its sagas hear of the
// answer once more; one that has come too late is forgotten.
func (c *Core) askedAt(ctx context.Context, place engine.Place, mark []byte) (*Asked, error) {
	found, err := ReadDocument[delivery](ctx, c, c.atOthers(place))
	switch {
	case errors.Is(err, ErrUnreadable), err == nil && found.Value.Asked == nil:
		return nil, tasks.ErrNotFound
	case err != nil:
		return nil, c.report(ctx, "page", err)
	}
	d := &found.Value
	a := &Asked{
		Name: place.Handle(engine.PageMark(mark)), Principal: d.Principal, Tool: d.Tool, Until: d.Until, By: namesOf(d.Asked), place: place,
		Step: steps.Step{ID: d.Question, Kind: steps.Outside, Params: d.Asked},
	}
	a.Program, _ = c.Turns.ProgramOf(d.Tool, d.Revision)
	a.AllowCaller = string(jsonview.Get(d.Asked, "allowCaller")) == "true"
	a.Action, _ = jsonview.String(jsonview.Get(d.Result, "action"))
	a.Who, _ = jsonview.String(jsonview.Get(d.Result, "by"))
	at, _ := jsonview.String(jsonview.Get(d.Result, "at"))
	a.At, _ = time.Parse(time.RFC3339, at)
	if a.Open = d.Result == nil && !d.Over && c.clock.now().Before(d.Until); a.Open {
		var r *row
		if r, err = c.takes(ctx, Address{c.atOthers(place), d.Row}, d); r != nil {
			a.Until = r.waitsUntil(a.Until)
		}
		switch {
		case errors.Is(err, ErrEventGone), errors.Is(err, errEnding):
			a.Open, err = false, nil
		case errors.Is(err, errHeard): // it was answered in other words, and is asked again in these
			err = nil
		case errors.Is(err, ErrUnreadable):
			return nil, c.forgets(ctx, d.Row, err)
		}
	}
	if err == nil && d.Result != nil {
		err = c.tellRows(ctx, c.atOthers(place), d) // the server that took the answer may have died before it did so
	}
	if err != nil {
		return nil, c.report(ctx, "page", err)
	}
	return a, nil
}

// waitsUntil is until when the saga waits for what it asks until then: no longer than it lasts.
func (r *row) waitsUntil(until time.Time) time.Time {
	end := r.Times.over()
	if r.Client != nil {
		end = r.Client.Expires
	}
	if !end.IsZero() && end.Before(until) {
		return end
	}
	return until
}

// PersonAnswer is what a person answers.
type PersonAnswer struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitzero"`
	By      string          `json:"by"`
	From    string          `json:"from,omitzero"`
	At      string          `json:"at"` // which the core says
}

// AnswerAsked gives a question the answer of a person who may give it. The first counts: it fails with [ErrEventOther] if
// there is one, and with [ErrEventGone] if it is not asked any more, or in other words.
func (c *Core) AnswerAsked(ctx context.Context, a *Asked, given PersonAnswer) error {
	given.At, given.By = c.clock.now().UTC().Format(time.RFC3339), strings.ToValidUTF8(given.By, "\uFFFD")
	result, err := jsonv2.Marshal(&given)
	if err == nil {
		result, err = jsonview.Canonical(result, jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	}
	if err != nil {
		return err
	}
	name := c.atOthers(a.place)
	found, err := changeDocument(ctx, c, name, nil, func(d *delivery, _ bool) (*kept, error) {
		switch {
		case d.Result != nil:
			return nil, ErrEventOther
		case !a.Open, d.Over, !c.clock.now().Before(d.Until), !bytes.Equal(d.Asked, a.Step.Params), a.Program == nil:
			return nil, ErrEventGone
		}
		if err := a.Program.CheckAsked(a.Step.ID, d.Asked, result); err != nil {
			return nil, &ValueError{err}
		}
		d.Result = result
		return d.kept(c.clock.now()), nil
	})
	if err == nil {
		err = c.tellRows(ctx, name, &found.Value)
	}
	if err == nil { // it may have ended since it was looked at
		_, err = c.takes(ctx, Address{name, found.Value.Row}, &found.Value)
	}
	switch {
	case err == nil, errors.Is(err, errEnding): // the saga may still continue, with the answer
	case errors.Is(err, ErrEventOther), errors.Is(err, ErrEventGone), errors.As(err, new(*ValueError)):
		return err
	default:
		return c.report(ctx, "page", err)
	}
	c.unlist(ctx, a.By, a.place)
	return nil
}

// WaitingFor lists what waits for those who have any of some names, from a place on that an earlier call has returned as
// next: what was asked first comes first, for each of the names. There may be fewer than limit before the end, and what
// several of the names may answer may come again.
func (c *Core) WaitingFor(ctx context.Context, names []string, after string, limit int) (list []*Asked, next string, err error) {
	mark, err := c.Mark(ctx)
	if err != nil {
		return nil, "", c.report(ctx, "page", err)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	number, text, _ := strings.Cut(cmp.Or(after, "0"), ".")
	first, err := strconv.Atoi(number)
	cursor, ok := cursorOf(text)
	if err != nil || !ok || first < 0 || first > len(names) {
		return nil, "", tasks.ErrCursor
	}
	looked, passed := 0, 0
	for i := first; i < len(names); i, cursor = i+1, (store.Cursor{}) {
		filter := store.Filter{Audience: c.rows.audience, Owner: c.rows.owner(listOf(names[i])), Mode: store.ModeSession}
		for record, err := range c.rows.list(ctx, filter, cursor, pageSize) {
			if err != nil {
				return nil, "", c.report(ctx, "page", err)
			}
			if len(list) == limit || looked >= maxLooked || passed >= maxPassed {
				return list, strconv.Itoa(i) + "." + cursorText(cursor), nil
			}
			cursor = store.Cursor{Created: record.Created, ID: record.ID}
			if passed++; !record.Keep.After(record.Now) {
				continue // it was taken off
			}
			looked++
			a, err := c.listedAt(ctx, record.ID, names[i], mark)
			if err != nil {
				return nil, "", err
			}
			if a != nil && !slices.ContainsFunc(list, func(b *Asked) bool { return a.place == b.place }) {
				list = append(list, a)
			}
		}
	}
	return list, "", nil
}

// listedAt is the question of an entry of the list of a name; nil if it is over.
func (c *Core) listedAt(ctx context.Context, id store.ID, name string, mark []byte) (*Asked, error) {
	found, err := ReadDocument[entry](ctx, c, id)
	if err != nil {
		if errors.Is(err, ErrUnreadable) {
			err = nil
		}
		return nil, err
	}
	a, err := c.askedAt(ctx, found.Value.Place, mark)
	switch {
	case errors.Is(err, tasks.ErrNotFound), errors.Is(err, turns.ErrNewer): // its saga is about to ask it, never was, or cannot be read here
		return nil, nil
	case err != nil:
		return nil, err
	case !a.Open || !slices.Contains(a.By, name):
		c.unlist(ctx, []string{name}, a.place)
		return nil, nil
	}
	return a, nil
}
