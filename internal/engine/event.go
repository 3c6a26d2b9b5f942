package engine

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

// An event is a question that no client is asked: its answer comes by [Call.Events], and never by [Call.Answers].

// Awaited is an event that a saga waits for.
type Awaited struct {
	// StepID is that of its answer, Question the event's id.
	StepID, Question string
	// Place is where it is delivered: that of a handle, unless there is a Key. Row is the saga's, if the handle names it.
	Place Place
	Row   [rowSize]byte
	Key   string
	// Until is until when it is waited for, Message says to people what it is.
	Until   time.Time
	Message string
	// Asked is the question that others are to answer, as it is asked; nil if it is an event.
	Asked []byte
}

// Place is what a handle names.
type Place [16]byte

// Parts of secrets and handles, in bytes. A saga's secret ends with the name of its row, if there is one in which others
// find what has become of the saga. Then its handles have that too.
const (
	secretSize = 16
	rowSize    = 16
	// markSize is how much of a handle says that it was made here.
	markSize = 8
)

// Handle returns the handle of an address. mark is a secret of the ledger's.
func (a Place) Handle(mark []byte) string { return a.handle(nil, mark) }

func (a Place) handle(row, mark []byte) string {
	named := append(a[:], row...)
	return base64.RawURLEncoding.EncodeToString(append(named, sumOf(named, mark)...))
}

// sumOf is the end of a handle.
func sumOf(named, mark []byte) []byte { return mac(mark, "mcpsaga handle 1", named)[:markSize] }

// secret is what the saga's places are made of: the same in whatever row it has.
func (p *Position) secret() []byte { return p.handles[:min(len(p.handles), secretSize)] }

// row names the saga's row; nil if nothing is known of one.
func (p *Position) row() []byte {
	if len(p.handles) != secretSize+rowSize {
		return nil
	}
	return p.handles[secretSize:]
}

// PageMark is what tells the pages of questions for others, as mark does handles: the one is not taken for the other.
func PageMark(mark []byte) []byte { return mac(mark, "mcpsaga page 1") }

// otherPlace is where the question of that id is answered by others. No handle of an event leads there.
func (p *Position) otherPlace(id string) Place {
	return Place(mac(p.secret(), "mcpsaga question 1", id))
}

func mac(key []byte, parts ...any) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		fmt.Fprintf(h, "%s\x00", part)
	}
	return h.Sum(nil)
}

// ReadHandle returns the address in a handle, and the row of its saga, which is zero if the handle does not name it. ok is
// false if it was not made with that mark.
func ReadHandle(handle string, mark []byte) (a Place, row [rowSize]byte, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(handle)
	named := b[:max(0, len(b)-markSize)]
	if err != nil || len(named) != len(a) && len(named) != len(a)+rowSize {
		return a, row, false
	}
	copy(row[:], named[len(a):])
	same := base64.RawURLEncoding.EncodeToString(b) == handle
	return Place(named), row, same && hmac.Equal(b[len(named):], sumOf(named, mark))
}

// NewSecret draws what the addresses of a saga's events are made of.
func NewSecret() []byte {
	b := make([]byte, secretSize)
	rand.Read(b) // never fails
	return b
}

// outside reports whether a step waits for an event.
func (p *pendingStep) outside() bool { return !p.until.IsZero() }

// address is where the event of that id is delivered.
func (p *Position) place(id string) Place { return Place(mac(p.secret(), "mcpsaga event 1", id)) }

// withHandles gives a position what addresses are made of, unless it has that or the program waits for no events.
func (p *Position) withHandles(t *Program, c *Call) {
	if t.outside && p.handles == nil {
		if p.handles = c.Secret; c.Secret == nil {
			p.handles = NewSecret()
		}
	}
}

// Handle returns the handle to which the event of that id is delivered. It is given away, so who remembers the saga knows
// it from then on: else no one could say of a handle whose saga has ended that it is too late.
func (tc *Turn) Handle(e steps.Request) (string, error) {
	s, err := e.Step()
	if err != nil {
		return "", fmt.Errorf("Handle: %w", err)
	}
	switch {
	case !tc.program.Outside(s.ID) || tc.program.forOthers(s.ID):
		return "", fmt.Errorf("Handle: event %q is not declared; add it to the tool's Asks", s.ID)
	case eventParam(s.Params, "key") != "":
		return "", fmt.Errorf("Handle: event %q has a Key, to which it is delivered; ask for it without, or signal the key", s.ID)
	}
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if err := cmp.Or(tc.over, tc.latched); err != nil {
		return "", err
	}
	if len(tc.log.records) == 0 { // else it is known already
		if err := tc.mayAct(nil, false); err != nil {
			return "", err
		}
	}
	return tc.pos.place(s.ID).handle(tc.pos.row(), tc.Mark), nil
}

// Page returns the address of the page on which others answer the question of that id.
func (tc *Turn) Page(id string) (string, error) {
	if !tc.program.forOthers(id) {
		return "", fmt.Errorf("Page: question %q is not declared, or is not for others; add it to the tool's Asks, and say By whom", id)
	}
	return tc.Pages + "/waiting/" + tc.pos.otherPlace(id).Handle(PageMark(tc.Mark)), nil
}

func eventParam(params []byte, name string) string {
	v, _ := jsonview.String(jsonview.Get(params, name))
	return v
}

// within is for how long the event of a step is waited for.
func within(s *steps.Step) time.Duration {
	n, _ := jsonview.Int64(jsonview.Get(s.Params, "within"))
	return time.Duration(n)
}

// Outside reports whether the question of that id is an event.
func (t *Program) Outside(id string) bool {
	q := t.questions[ident.Base(id)]
	return q != nil && q.step.Kind == steps.Outside
}

// forOthers reports whether the question of that id is one that others answer.
func (t *Program) forOthers(id string) bool {
	return t.Outside(id) && jsonview.Get(t.questions[ident.Base(id)].step.Params, "requestedSchema") != nil
}

// AsksOthers reports whether the program asks others than its caller.
func (t *Program) AsksOthers() bool {
	return slices.ContainsFunc(t.Asks, func(q steps.Question) bool { return t.forOthers(q.StepID()) })
}

// Waits reports whether the program may wait for events.
func (t *Program) Waits() bool { return t.outside }

// Awaits reports whether a saga that stands there waits for an event.
func (p *Position) Awaits() bool { return !p.AwaitsUntil().IsZero() }

// AwaitsUntil is until when a saga waits for events, at the latest; the zero time if it waits for none.
func (p *Position) AwaitsUntil() (until time.Time) {
	for i := range p.pending {
		if s := &p.pending[i]; s.outside() && s.answer == nil && s.until.After(until) {
			until = s.until
		}
	}
	return until
}

// Rests is until when a saga that stands there continues without its client, at the latest; the zero time is at once.
func (p *Position) Rests() time.Time {
	if until := p.AwaitsUntil(); until.After(p.Wake) {
		return until
	}
	return p.Wake
}

// Asks reports whether a saga that stands there waits for an answer of its client's.
func (p *Position) Asks() bool { return len(p.PendingIDs()) > 0 }

// Awaited returns the events that a saga of the program waits for at pos.
func (t *Program) Awaited(pos *Position) (list []Awaited) {
	for i := range pos.pending {
		p := &pos.pending[i]
		if !p.outside() || p.answer != nil {
			continue
		}
		a := Awaited{StepID: p.stepID(), Question: p.id, Place: pos.place(p.id), Row: [rowSize]byte(append(slices.Clone(pos.row()), make([]byte, rowSize)...)), Until: p.until}
		params := p.params
		if q := t.questions[ident.Base(p.id)]; params == nil && q != nil {
			params = q.step.Params
		}
		if a.Key, a.Message = eventParam(params, "key"), eventParam(params, "message"); t.forOthers(p.id) {
			a.Place, a.Asked, a.Message = pos.otherPlace(p.id), params, "Waiting for the answer of another person."
		}
		list = append(list, a)
	}
	return list
}

// CheckAsked fails if a result is no answer to a question as others are asked it.
func (t *Program) CheckAsked(id string, asked, result []byte) error {
	if !t.forOthers(id) {
		return errors.New("the tool asks nothing like that any more")
	}
	return Protect(func() error {
		return t.questions[ident.Base(id)].Check(steps.Step{ID: id, Kind: steps.Outside, Params: asked, Varied: true}, result)
	})
}

// CheckEvent fails if a result is none that the event of that id can have, in words for who delivers it.
func (t *Program) CheckEvent(id string, result []byte) error {
	if !t.Outside(id) {
		return errors.New("the tool does not wait for such an event")
	}
	return Protect(func() error {
		return t.questions[ident.Base(id)].Check(steps.Step{ID: id, Kind: steps.Outside}, result)
	})
}

// happen takes the answers to events into the position, as accept does those of the client.
func (p *Position) happen(events []steps.Answer) {
	for _, a := range events {
		for i := range p.pending {
			if s := &p.pending[i]; s.outside() && s.answer == nil && s.stepID() == a.StepID {
				s.answer = store(a)
			}
		}
	}
}
