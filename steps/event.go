package steps

import (
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Event is a question that no client is asked: something outside is waited for, such as a
// payment's callback, and its answer, a T, is delivered to the server. T is any type that
// arguments of a tool may have; what is delivered is checked against its schema.
//
// An event happens once: whatever is delivered first is its answer, also if it comes before
// the saga asks, and however often the saga asks. It is delivered to the handle that saga.Handle
// returns, which you give to whom you wait for, or, With a [Key], to that key. A server with a tool
// that asks for events needs a ledger.
//
// Do not copy or change an Event after its first use. Many goroutines may use it at once.
type Event[T any] struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Message says to people what is waited for. It is required.
	Message string
	// Within is for how long it is waited for, from when the saga asks. It is required. After
	// that, Answer fails with [ErrTimeout]. A saga whose own time ends before, by its MaxAge or a TTL of its Tasks, waits
	// no longer than it lasts: it ends then, and is undone.
	Within time.Duration

	nth, varied bool
	keyed       bool // With a Key
	key         string
}

// eventValue is what an answer must be.
type eventValue struct {
	schema   *schema.Schema
	decoding jsonv2.Options
	err      error
}

// EventOption changes how an [Event] is asked. See [Message] and [Key].
type EventOption interface{ applyEvent(*eventWords) }

// Key has an [Event] be delivered to a name of your own, such as that of an order, instead of a
// handle: an [EventOption]. All sagas that ask for the same event of the same tool with the same key get
// the same answer. It has 1 to 256 bytes of UTF-8. Only code of the server's delivers to keys, so they need not be hard to guess.
type Key string

// eventWords are what options change.
type eventWords struct {
	message, key string
	keyed        bool
}

func (k Key) applyEvent(w *eventWords)     { w.key, w.keyed = string(k), true }
func (m Message) applyEvent(w *eventWords) { w.message = string(m) }

// maxWithin is how long an event may be waited for.
const maxWithin = 10 * 365 * 24 * time.Hour

// eventValues has the values of the types of events: a *eventValue by its [reflect.Type].
var eventValues sync.Map

func eventValueOf(t reflect.Type) *eventValue {
	if v, ok := eventValues.Load(t); ok {
		return v.(*eventValue)
	}
	v := new(eventValue)
	var s *jsonschema.Schema
	if s, v.decoding, v.err = schema.ForTool(t, nil); v.err == nil {
		v.schema, _, v.err = schema.Resolve(s, nil)
	}
	eventValues.Store(t, v)
	return v
}

// StepID implements [Question].
func (e *Event[T]) StepID() string { return e.ID }

// happens reports whether it can finish a [Link].
func (e *Event[T]) happens() bool { return e != nil }

// Verify implements [Question].
func (e *Event[T]) Verify() error {
	if err := checkID(e.ID, e.nth); err != nil {
		return err
	}
	reason := ""
	switch {
	case e.Message == "":
		reason = "has no Message"
	case e.Within <= 0:
		reason = "has no Within: say for how long it is waited for"
	case e.Within > maxWithin:
		reason = "is waited for longer than ten years"
	case e.keyed:
		reason = ident.KeyProblem(e.key)
	}
	if reason != "" {
		return &QuestionError{StepID: e.ID, Reason: reason}
	}
	if err := eventValueOf(reflect.TypeFor[T]()).err; err != nil {
		return withID(e.ID, &QuestionError{Reason: err.Error()})
	}
	return nil
}

// Step implements [Request]. The step is for servers: it is never sent to a client.
func (e *Event[T]) Step() (Step, error) {
	if err := e.Verify(); err != nil {
		return Step{}, err
	}
	params := appendJSON(nil, &eventParams{e.Message, int64(e.Within), e.key})
	return Step{ID: e.ID, Kind: Outside, Params: params, Varied: e.varied}, nil
}

// eventParams are the parameters of the step of an event. They are this module's, and kept: Within is in nanoseconds.
type eventParams struct {
	Message string `json:"message"`
	Within  int64  `json:"within"`
	Key     string `json:"key,omitzero"`
}

// With returns the event asked with another message, or with a [Key].
func (e *Event[T]) With(options ...EventOption) *Event[T] {
	w := eventWords{e.Message, e.key, e.keyed}
	for _, o := range options {
		if o != nil {
			o.applyEvent(&w)
		}
	}
	varied := *e
	varied.varied, varied.Message, varied.key, varied.keyed = true, w.message, w.key, w.keyed
	return &varied
}

// Nth returns the n-th instance of the event, with the id "ID#n", which is delivered by itself.
func (e *Event[T]) Nth(n int) *Event[T] {
	nth := *e
	nth.ID, nth.nth = nthID(e.ID, n), true
	return &nth
}

// parseHappened reads what came of an event.
func parseHappened(result json.RawMessage) (outcome, string) {
	return parseOutcome(result, accepted, declined, timedOut)
}

// Check implements [Question]. It validates what was delivered against the schema of T.
func (e *Event[T]) Check(step Step, result json.RawMessage) error {
	o, err := parsed(step.ID, result, parseHappened)
	if err != nil || o.action != accepted {
		return err
	}
	if _, err := e.decode(o.content); err != nil {
		return &checkerr.InvalidError{StepID: step.ID, Reason: err.Error()}
	}
	return nil
}

// decode returns content that fits the schema, and T: an integer may be larger than those of Go.
func (e *Event[T]) decode(content jsontext.Value) (answer T, err error) {
	value := eventValueOf(reflect.TypeFor[T]())
	if err = value.err; err == nil && content == nil {
		err = errors.New("there is no content")
	}
	if err == nil {
		err = value.schema.Validate(json.RawMessage(content))
	}
	if err == nil {
		err = schema.Decode(content, &answer, value.decoding)
	}
	return answer, err
}

// Answer returns what was delivered. The error is a *[StepError]: of [ErrTimeout] if nothing was
// in time, of [ErrDeclined] if it was rejected.
func (e *Event[T]) Answer(a Answers) (T, error) {
	return contentOf(a, e.ID, parseHappened, e.decode) // another version of the tool may have taken the answer
}
