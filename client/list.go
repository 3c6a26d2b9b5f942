package client

import (
	"context"
	stdjson "encoding/json"
	"errors"

	"github.com/sourcegraph/jsonrpc2"
)

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

// orNone takes a server that does not know a list for one without such things.
func orNone[T any](items []T, err error) ([]T, error) {
	var refused *Error
	if errors.As(err, &refused) && refused.Code == jsonrpc2.CodeMethodNotFound {
		return nil, nil
	}
	return items, err
}

type listParams struct {
	Cursor string       `json:"cursor,omitempty"`
	Meta   *requestMeta `json:"_meta,omitempty"`
}

// readPage adds the items of a page and returns the cursor of the next.
func readPage[T any](raw stdjson.RawMessage, what string, items *bounded[T]) (string, error) {
	var page map[string]stdjson.RawMessage
	if err := read(raw, &page, "the server's list of "+what); err != nil {
		return "", err
	}
	more := bounded[T]{max: items.max - len(items.items), what: items.what}
	if err := read(page[what], &more, "the server's list of "+what); err != nil {
		var much *LimitError
		if errors.As(err, &much) {
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
