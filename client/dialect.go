package client

import "encoding/json"

// dialect is a wire protocol for driving calls: it turns a position into the
// request of the next turn, and a response into what the turn brought. It decides
// nothing else, so that the loop that drives a call is the same for all.
type dialect interface {
	// name is what Position.Dialect holds.
	name() string
	// next returns the request of the turn that follows p, all of whose steps are
	// answered.
	next(p *Position) request
	// cancel returns the request that ends the call at p, and false if the
	// protocol has none.
	cancel(p *Position) (request, bool)
	// parse reads the result of such a request. Its errors are *ProtocolError.
	parse(result json.RawMessage) (turn, error)
}

// request is a JSON-RPC request that has not been sent yet.
type request struct {
	method string
	params any
	// harmless reports that the server may process the request twice.
	harmless bool
}

// turn is what a turn brought: a result, or else a suspension.
type turn struct {
	result *Result
	token  string
	steps  []Step
}

// dialects are the protocols this package speaks, by name.
var dialects = map[string]dialect{sagaDialect{}.name(): sagaDialect{}}
