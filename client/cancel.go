package client

import (
	"context"
	"encoding/json"
	"errors"
)

// ErrNotBegun says that there is nothing to cancel: the server has not answered
// the call yet, so there is no token to name it by.
var ErrNotBegun = errors.New("the call has not begun: the server knows nothing of it")

// Cancel ends a call that is suspended at position and has the server undo what
// the tool has done. The result says what was undone and what was not, in words
// and under the key io.github.mcpsaga/undo of its _meta.
//
// If the position's steps are all answered, the server may have taken that turn
// before, though its response was lost. Then the turn is taken first; if it ends
// the call, it is too late to cancel, and the result is the tool's.
//
// Cancel may be repeated. Its errors are those of [Client.Call], and [ErrNotBegun].
func (c *Client) Cancel(ctx context.Context, position Position) (*Result, error) {
	fail := func(err error) (*Result, error) { return nil, &Interrupted{Position: position, Err: err} }
	if err := position.check(); err != nil {
		return fail(err)
	}
	if position.Tool == "" {
		return fail(&PositionError{Reason: "a " + position.Kind() + " changes nothing, so there is nothing to undo: forget the position"})
	}
	if position.Token == "" {
		return fail(ErrNotBegun)
	}
	dialect, known := c.dialect(position.Dialect)
	if !known {
		return fail(unknownDialect(position.Dialect))
	}
	p := position.snapshot()
	request, can := dialect.cancel(&p)
	if !can {
		return fail(&PositionError{Reason: "the protocol " + position.Dialect + " cannot cancel"})
	}
	raw, err := c.send(ctx, request)
	if err != nil {
		return fail(err)
	}
	turn, err := dialect.parse(raw, c.options.Limits)
	if err != nil {
		return fail(err)
	}
	if turn.result == nil {
		return fail(malformed("the server suspended a call that was to be cancelled"))
	}
	result, err := parseResult(turn.result, c.options.Limits)
	if err != nil {
		return fail(err)
	}
	return result, nil
}

// Outstanding reports whether the result says that something the tool has done
// could not be undone.
func (r *Result) Outstanding() bool {
	var wire struct {
		Meta struct {
			Undo struct {
				Outstanding []string `json:"outstanding"`
			} `json:"io.github.mcpsaga/undo"`
		} `json:"_meta"`
	}
	return json.Unmarshal(r.Raw, &wire) == nil && len(wire.Meta.Undo.Outstanding) > 0
}
