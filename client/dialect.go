package client

import "encoding/json"

// dialect is a wire protocol for driving calls: it turns a position into the
// request of the next turn, and a response into what the turn brought. It decides
// nothing else, so that the loop that drives a call is the same for all. A new one is
// a file with this interface and a line in [New].
type dialect interface {
	// name is what Position.Dialect holds.
	name() string
	// next returns the request of the turn that follows p, all of whose steps are
	// answered, by a client that can do what h can.
	next(p *Position, h *Handlers) request
	// cancel returns the request that ends the call at p, and false if the
	// protocol has none.
	cancel(p *Position) (request, bool)
	// list returns the request for the page of a list that begins at cursor.
	list(method, cursor string) request
	// parse reads the result of next or cancel. Its errors are *ProtocolError.
	parse(result json.RawMessage, limits Limits) (turn, error)
	// rules says how answers travel.
	rules() answerRules
}

// answerRules say how the answers of a call travel in a dialect.
type answerRules struct {
	// all: every turn carries all answers so far, so that the ids of steps never
	// repeat. Otherwise only those of the last round.
	all bool
	// errors: an answer can be an error. Otherwise a handler that fails ends the call.
	errors bool
}

// request is a JSON-RPC request that has not been sent yet.
type request struct {
	method string
	params any
	// harmless reports that the server may process the request twice.
	harmless bool
	// later: it is not the first turn of a call.
	later bool
	// header is sent with the request over HTTP.
	header map[string]string
	// introduced: the request says itself who sends it, so that it can come before
	// any handshake.
	introduced bool
}

// turn is what a turn brought: a result, or else a suspension.
type turn struct {
	result json.RawMessage
	token  string
	steps  []Step
}

// dialect returns the protocol of a position.
func (c *Client) dialect(p *Position) (dialect, error) {
	for _, d := range c.dialects {
		if d.name() == p.Dialect {
			return d, nil
		}
	}
	return nil, positionError("it uses the protocol %q, which this version does not know", p.Dialect)
}

// begin is the position of a call that has not begun.
func begin(d dialect) Position { return Position{Version: positionVersion, Dialect: d.name()} }
