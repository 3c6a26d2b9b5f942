package client

import "encoding/json"

// dialect is a wire protocol for driving calls: it turns a position into the
// request of the next turn, and a response into what the turn brought. It decides
// nothing else, so that the loop that drives a call is the same for all.
type dialect interface {
	// name is what Position.Dialect holds.
	name() string
	// next returns the request of the turn that follows p, all of whose steps are
	// answered, by a client that can do what h can.
	next(p *Position, h *Handlers) request
	// cancel returns the request that ends the call at p, and false if the
	// protocol has none.
	cancel(p *Position) (request, bool)
	// parse reads the result of such a request. Its errors are *ProtocolError.
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
	// revision is the revision of MCP that the request names, or empty if it belongs
	// to none; name is then what the header Mcp-Name says, or empty.
	revision, name string
}

// turn is what a turn brought: a result, or else a suspension.
type turn struct {
	result json.RawMessage
	token  string
	steps  []Step
}
