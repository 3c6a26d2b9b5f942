package client

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sourcegraph/jsonrpc2"
)

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
