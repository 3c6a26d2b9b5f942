package client

import (
	"context"
	"encoding/json"
)

// Cancel ends a call that is suspended at position and has the server undo what
// the tool has done. The result says what was undone and what was not, in words
// and under the key io.github.mcpsaga/undo of its _meta.
//
// If the position's steps are all answered, the server may have taken that turn
// before, though its response was lost. Then the turn is taken first; if it ends
// the call, it is too late to cancel, and the result is the tool's.
//
// Cancel may be repeated. Its errors are those of [Client.Call].
func (c *Client) Cancel(ctx context.Context, position Position) (*Result, error) {
	result, err := c.cancel(ctx, position.snapshot())
	if err != nil {
		return nil, &Interrupted{Position: position, Err: err}
	}
	return result, nil
}

func (c *Client) cancel(ctx context.Context, p Position) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	dialect, err := c.dialect(&p)
	switch {
	case p.Tool == "":
		return nil, positionError("a %s changes nothing, so there is nothing to undo: forget the position", p.Kind())
	case p.Token == "":
		return nil, positionError("the call has not begun: the server knows nothing of it")
	case err != nil:
		return nil, err
	}
	request, can := dialect.cancel(&p)
	if !can {
		return nil, positionError("the protocol %s cannot cancel", p.Dialect)
	}
	raw, err := c.send(ctx, request)
	if err != nil {
		return nil, err
	}
	turn, err := dialect.parse(raw, c.options.Limits)
	if err != nil {
		return nil, err
	}
	if turn.result == nil {
		return nil, malformed("the server suspended a call that was to be cancelled")
	}
	return parseResult(turn.result, c.options.Limits)
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
