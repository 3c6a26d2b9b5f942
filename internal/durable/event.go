package durable

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// kind says what an item of a saga's log is.
type kind string

// What happens to a saga. Each change of its record appends at least one of these.
const (
	// kindBegun: the saga was begun, or a turn of one that its client drives. kindTurn: a turn has
	// ended, or come further. kindRest: it was put to rest without that, to be tried again or handed over.
	kindBegun kind = "begun"
	kindTurn  kind = "turn"
	kindRest  kind = "rest"
	// kindQuestion, kindPartial, kindProgress and kindLog are what clients see.
	kindQuestion kind = "question"
	kindPartial  kind = "partial"
	kindProgress kind = "progress"
	kindLog      kind = "log"
	// kindEffect: an effect has ended well, or was found to have. kindUndoing: effects are about to be undone.
	kindEffect  kind = "effect"
	kindUndoing kind = "undoing"
	// kindEnd: the saga has ended. kindUndone: an undo that has failed so far was tried, and Effects are still to be undone.
	kindEnd    kind = "end"
	kindUndone kind = "undone"

	// These are inputs: clients and operators append them to the log of a saga that others may hold.
	kindAnswer kind = "answer"
	kindCancel kind = "cancel"
	kindRenew  kind = "renew"
	kindKeep   kind = "keep"
	kindUndo   kind = "undo"

	// kindShared is a change of what is no saga.
	kindShared kind = "shared"

	// kindUnreadable is in place of what cannot be opened here.
	kindUnreadable kind = "unreadable"
)

// event is an item of the log, opened.
type event struct {
	kind kind
	n    uint64
	at   time.Time
	body
}

// body is what an item says, sealed as CBOR.
type body struct {
	// What clients see.
	Progress *progress   `cbor:"1,keyasint,omitempty"`
	Log      *logged     `cbor:"2,keyasint,omitempty"`
	Partial  []byte      `cbor:"3,keyasint,omitempty"`
	Question *steps.Step `cbor:"4,keyasint,omitempty"`
	// Effects are names, Ending how the saga has ended, Bad that its result says that the tool has failed, Text for people who
	// read the log.
	Effects []string `cbor:"5,keyasint,omitempty"`
	Ending  ending   `cbor:"6,keyasint,omitempty"`
	Bad     bool     `cbor:"14,keyasint,omitempty"`
	Text    string   `cbor:"7,keyasint,omitempty"`
	// Inputs.
	Answers []steps.Answer `cbor:"8,keyasint,omitempty"`
	Given   []tasks.Given  `cbor:"9,keyasint,omitempty"`
	Until   time.Time      `cbor:"10,keyasint,omitzero"`
	Note    []byte         `cbor:"11,keyasint,omitempty"`
	// Granted is what the request said of the saga's caller; nil if it was not that one's.
	Granted *granted `cbor:"13,keyasint,omitempty"`
	// Notice is for all processes.
	Notice *Notice `cbor:"12,keyasint,omitempty"`
}

// progress is an [engine.Progress].
type progress struct {
	Done    float64 `cbor:"1,keyasint,omitempty"`
	Total   float64 `cbor:"2,keyasint,omitempty"`
	Message string  `cbor:"3,keyasint,omitempty"`
}

type logged struct {
	Level  slog.Level `cbor:"1,keyasint"`
	Logger string     `cbor:"2,keyasint,omitempty"`
	Data   []byte     `cbor:"3,keyasint,omitempty"`
}

// trait is what the kind of an item says of it.
type trait uint8

const (
	// seen: a client that watches the saga is to see that something has changed. told: it is an event as clients see
	// it. passing: it makes room for newer items, while others are kept as long as the saga.
	seen trait = 1 << iota
	told
	passing
)

var traits = map[kind]trait{
	kindBegun: seen, kindUndoing: seen, kindAnswer: seen, kindCancel: seen, kindRenew: seen, kindUndo: seen,
	kindQuestion: seen | told, kindPartial: seen | told, kindEnd: seen | told,
	kindProgress: seen | told | passing, kindLog: seen | told | passing, kindShared: passing,
}

// sealItems numbers events from after on, and seals them.
func (s *sealer) sealItems(id store.ID, after uint64, events []event) ([]store.Item, error) {
	items := make([]store.Item, len(events))
	for i := range events {
		n := after + uint64(i) + 1
		raw, err := s.seal(id, placeItem, n, &events[i].body)
		if err != nil {
			return nil, err
		}
		items[i] = store.Item{N: n, Kind: string(events[i].kind), Lasting: traits[events[i].kind]&passing == 0, Body: raw}
	}
	return items, nil
}

func (s *sealer) openItem(id store.ID, i *store.Item) (e event, err error) {
	e = event{kind: kind(i.Kind), n: i.N, at: i.At}
	return e, s.open(id, placeItem, i.N, i.Body, &e.body)
}

// shown is the event as clients see it, which tells of Progress or has a Log.
func (e *event) shown() *tasks.Event {
	t := &tasks.Event{N: e.n, Progress: (*engine.Progress)(e.Progress)}
	if e.Log != nil {
		t.Log = &engine.Log{Level: e.Log.Level, Logger: e.Log.Logger, Data: json.RawMessage(e.Log.Data)}
	}
	return t
}

func (e ending) status() tasks.Status {
	return [...]tasks.Status{tasks.Cancelled, completed: tasks.Completed, failed: tasks.Failed, cancelled: tasks.Cancelled}[min(e, cancelled)]
}

// String returns the ending as operators read it.
func (e ending) String() string {
	return [...]string{"undone", completed: "completed", failed: "failed", cancelled: "undone"}[min(e, cancelled)]
}

// mostGiven is how many answers a saga knows again that come twice.
const mostGiven = 8

// filter returns what of a list is to be kept, nil if that is nothing.
func filter[T any](list []T, keep func(T) bool) (kept []T) {
	for _, v := range list {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func answersTo(questions []steps.Step, answers []steps.Answer) []steps.Answer {
	return filter(answers, func(a steps.Answer) bool {
		return slices.ContainsFunc(questions, func(q steps.Step) bool { return q.ID == a.StepID })
	})
}

func answersToIDs(ids []string, answers []steps.Answer) []steps.Answer {
	return filter(answers, func(a steps.Answer) bool { return slices.Contains(ids, a.StepID) })
}

func hasAnswer(answers []steps.Answer, question string) bool {
	return slices.ContainsFunc(answers, func(a steps.Answer) bool { return a.StepID == question })
}
