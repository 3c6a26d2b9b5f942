package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Limits bound what a server can have a client hold in memory and show: servers
// are not to be trusted. What is more than a limit ends the call with a
// [*LimitError], before a handler sees any of it. A field that is 0 has its default.
//
// The size of a response is limited by [HTTP] and [Stdio], the time for a turn and
// the number of rounds by [Options].
type Limits struct {
	Steps     int // steps that a tool may ask at once: 100 by default
	Fields    int // fields in a form: 200
	Choices   int // choices of all fields of a form together: 1000
	FormBytes int // bytes in a form, as JSON with all its texts: 256 KiB
	Items     int // items in a list, on all its pages, and in a result: 10 000
	ListBytes int // bytes in all pages of a list together: 32 MiB
	Pages     int // pages of a list: 1000
	PartBytes int // bytes in the parts of a result together: 32 MiB
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Steps: cmp.Or(l.Steps, 100), Fields: cmp.Or(l.Fields, 200), Choices: cmp.Or(l.Choices, 1000),
		FormBytes: cmp.Or(l.FormBytes, 256<<10), Items: cmp.Or(l.Items, 10_000),
		ListBytes: cmp.Or(l.ListBytes, 32<<20), Pages: cmp.Or(l.Pages, 1000), PartBytes: cmp.Or(l.PartBytes, 32<<20),
	}
}

// LimitError says that a server sends more than this client takes (see [Limits]), or
// that a tool asks more often than Options.MaxRounds allows. In the latter case the
// steps of the last round are in the position, not asked; [Client.Resume] starts
// counting anew.
type LimitError struct {
	What  string // of what there is too much, such as "fields in a form"
	Limit int64  // how much of it is taken
}

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Limit, e.What) }

// tooMuch is a protocol error on account of a limit.
func tooMuch[N ~int | ~int64](limit N, what string) error {
	return &ProtocolError{Reason: "the server sends too much", Err: &LimitError{what, int64(limit)}}
}

// bounded is a JSON array of at most max elements, counted before any is decoded: two bytes can take hundreds in memory.
type bounded[T any] struct {
	items []T
	max   int
	what  string
}

func (l Limits) blocks() bounded[json.RawMessage] {
	return bounded[json.RawMessage]{max: l.Items, what: "blocks in a result"}
}

// UnmarshalJSON appends the elements of an array to the items.
func (b *bounded[T]) UnmarshalJSON(raw []byte) error {
	n := len(b.items)
	for range jsonview.Elements(raw) {
		if n++; n > b.max {
			return tooMuch(b.max, b.what)
		}
	}
	var more []T
	err := jsonv2.Unmarshal(raw, &more, lenient)
	if b.items = append(b.items, more...); b.items == nil {
		b.items = more // empty, which is not the same as missing
	}
	return err
}

func (l Limits) checkForms(steps []Step) error {
	for _, step := range steps {
		if len(step.Params) > 0 && !jsontext.Value(step.Params).IsValid() { // readers might differ in what it asks
			return malformed("the server's question %q has a name twice", step.StepID)
		}
		if step.Type == "elicitation" {
			if err := l.checkForm(step.Params); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkForm counts what a form has without decoding it.
func (l Limits) checkForm(params json.RawMessage) error {
	if len(params) > l.FormBytes {
		return tooMuch(l.FormBytes, "bytes in a form")
	}
	fields, choices := 0, 0
	for _, field := range jsonview.Members(jsonview.Get(params, "requestedSchema", "properties")) {
		if fields++; fields > l.Fields {
			return tooMuch(l.Fields, "fields in a form")
		}
		for _, schema := range [][]byte{field, jsonview.Get(field, "items")} {
			for _, list := range []string{"enum", "oneOf", "anyOf"} {
				for range jsonview.Elements(jsonview.Get(schema, list)) {
					if choices++; choices > l.Choices {
						return tooMuch(l.Choices, "choices in a form")
					}
				}
			}
		}
	}
	return nil
}

// list reads all pages of a list. what is the server's word for its items.
func list[T any](ctx context.Context, c *Client, protocol, method, what string) ([]T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, ErrTimeout)
	defer cancel()
	limits := c.options.Limits
	items := bounded[T]{max: limits.Items, what: what + " in a list"}
	size, cursor, seen := 0, "", map[string]bool{}
	for range limits.Pages {
		raw, err := c.send(ctx, c.dialects[protocol].list(method, cursor))
		if err != nil {
			return nil, err
		}
		if size += len(raw); size > limits.ListBytes {
			return nil, tooMuch(limits.ListBytes, "bytes in a list")
		}
		var page map[string]json.RawMessage
		if err := read(raw, &page, "the server's list of "+what); err != nil {
			return nil, err
		}
		if page[what] == nil {
			return nil, malformed("the server's answer has no list of %s", what)
		}
		if err := read(page[what], &items, "the server's list of "+what); err != nil {
			return nil, err
		}
		if cursor = ""; page["nextCursor"] != nil {
			if err := read(page["nextCursor"], &cursor, "the server's nextCursor"); err != nil {
				return nil, err
			}
		}
		switch {
		case cursor == "":
			return items.items, nil
		case seen[cursor]:
			return nil, malformed("the server's list of %s goes in a circle: the cursor %.40q comes twice", what, cursor)
		}
		seen[cursor] = true
	}
	return nil, tooMuch(limits.Pages, "pages of "+what)
}

// listFeatures lists prompts or resources. A server that does not know a list has no such things.
func listFeatures[T any](ctx context.Context, c *Client, method, what string) ([]T, error) {
	spoken, err := c.speak(ctx)
	if err != nil {
		return nil, err
	}
	items, err := list[T](ctx, c, spoken.features, method, what)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Code == jsonrpc2.CodeMethodNotFound {
		return nil, nil
	}
	return items, err
}
