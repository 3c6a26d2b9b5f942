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
	// Steps is how many steps a tool may ask at once: 100 by default.
	Steps int
	// Fields is how many fields a form may have: 200 by default.
	Fields int
	// Choices is how many choices all fields of a form may have together: 1000 by
	// default.
	Choices int
	// FormBytes is how long a form may be, as JSON with all its texts: 256 KiB by
	// default.
	FormBytes int
	// Items is how many items a list of tools, prompts or resources may have, on all
	// its pages, and a result: 10 000 by default.
	Items int
	// ListBytes is how long all pages of a list may be together: 32 MiB by default.
	ListBytes int
	// Pages is how many pages a list may have: 1000 by default.
	Pages int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Steps: cmp.Or(l.Steps, 100), Fields: cmp.Or(l.Fields, 200), Choices: cmp.Or(l.Choices, 1000),
		FormBytes: cmp.Or(l.FormBytes, 256<<10), Items: cmp.Or(l.Items, 10_000),
		ListBytes: cmp.Or(l.ListBytes, 32<<20), Pages: cmp.Or(l.Pages, 1000),
	}
}

// LimitError says that a server sends more than this client takes (see [Limits]), or
// that a tool asks more often than Options.MaxRounds allows. In the latter case the
// steps of the last round are in the position, not asked; [Client.Resume] starts
// counting anew.
type LimitError struct {
	// What is what there is too much of, such as "fields in a form".
	What string
	// Limit is how much of it is taken.
	Limit int64
}

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Limit, e.What) }

// tooMuch is a protocol error on account of a limit.
func tooMuch[N ~int | ~int64](limit N, what string) error {
	return &ProtocolError{Reason: "the server sends too much", Err: &LimitError{what, int64(limit)}}
}

// bounded is a JSON array of at most max elements. It stops reading at the limit:
// an element of two bytes can take hundreds in memory.
type bounded[T any] struct {
	items []T
	max   int
	what  string
}

func (b *bounded[T]) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() == 'n' {
		return in.SkipValue()
	}
	if in.PeekKind() != '[' {
		return errors.New("a list is wanted")
	}
	b.items = []T{}
	return eachOf(in, b.max, b.what, func() error {
		var item T
		err := jsonv2.UnmarshalDecode(in, &item)
		b.items = append(b.items, item)
		return err
	})
}

// eachOf has read read the elements of an array, or the members of an object, as long
// as there are no more than max.
func eachOf(in *jsontext.Decoder, max int, what string, read func() error) error {
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for n := 0; in.PeekKind() != ']' && in.PeekKind() != '}'; n++ {
		if n == max {
			return tooMuch(max, what)
		}
		if err := read(); err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

func (l Limits) checkForms(steps []Step) error {
	for _, step := range steps {
		if step.Type == "elicitation" {
			if err := l.checkForm(step.Params); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkForm counts what a form has, without making anything of it, and reports which
// limit it is beyond.
func (l Limits) checkForm(params []byte) error {
	if len(params) > l.FormBytes {
		return tooMuch(l.FormBytes, "bytes in a form")
	}
	fields, choices := 0, 0
	for _, field := range jsonview.Members(jsonview.Get(jsonview.Get(params, "requestedSchema"), "properties")) {
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

// list reads all pages of a list over d. What is the server's word for the items.
func list[T any](ctx context.Context, c *Client, d dialect, method, what string) ([]T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, ErrTimeout)
	defer cancel()
	limits := c.options.Limits
	items := bounded[T]{max: limits.Items, what: what + " in a list"}
	size, cursor, seen := 0, "", map[string]bool{}
	for range limits.Pages {
		raw, err := c.send(ctx, d.list(method, cursor))
		if err != nil {
			return nil, err
		}
		if size += len(raw); size > limits.ListBytes {
			return nil, tooMuch(limits.ListBytes, "bytes in a list")
		}
		next, err := readPage(raw, what, &items)
		if err != nil {
			return nil, err
		}
		switch {
		case next == "":
			return items.items, nil
		case seen[next]:
			return nil, malformed("the server's list of %s goes in a circle: the cursor %.40q comes twice", what, next)
		}
		seen[next], cursor = true, next
	}
	return nil, tooMuch(limits.Pages, "pages of "+what)
}

func listFeatures[T any](ctx context.Context, c *Client, method, what string) ([]T, error) {
	var items []T
	spoken, err := c.speak(ctx)
	if err == nil {
		items, err = list[T](ctx, c, spoken.features, method, what)
	}
	// A server that does not know a list is one without such things.
	if refused, ok := errors.AsType[*Error](err); ok && refused.Code == jsonrpc2.CodeMethodNotFound {
		return nil, nil
	}
	return items, err
}

type listParams struct {
	Cursor string       `json:"cursor,omitempty"`
	Meta   *requestMeta `json:"_meta,omitempty"`
}

// readPage adds the items of a page and returns the cursor of the next.
func readPage[T any](raw json.RawMessage, what string, items *bounded[T]) (string, error) {
	var page map[string]json.RawMessage
	if err := read(raw, &page, "the server's list of "+what); err != nil {
		return "", err
	}
	if page[what] == nil {
		return "", malformed("the server's answer has no list of %s", what)
	}
	more := bounded[T]{max: items.max - len(items.items), what: items.what}
	if err := read(page[what], &more, "the server's list of "+what); err != nil {
		if errors.As(err, new(*LimitError)) {
			err = tooMuch(items.max, items.what)
		}
		return "", err
	}
	items.items = append(items.items, more.items...)
	next := ""
	if cursor := page["nextCursor"]; cursor != nil {
		if err := read(cursor, &next, "the server's nextCursor"); err != nil {
			return "", err
		}
	}
	return next, nil
}
