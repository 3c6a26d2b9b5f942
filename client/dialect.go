package client

import (
	"encoding/json"
	"time"
)

// The names of dialects, for Position.Dialect.
const (
	sagaProposal = "saga"
	stateless    = "mcp-" + revision
	inSessions   = "mcp-sessions"
)

// dialect is a wire protocol: it turns a position into the request of the next turn, and
// a response into what the turn brought. A new one is a file and a line in [New].
type dialect interface {
	// next returns the request of the turn that follows p, all of whose steps are
	// answered, by a client that can do what h can.
	next(p *Position, h *Handlers) request
	// list returns the request for the page of a list that begins at cursor.
	list(method, cursor string) request
	// parse reads the result of next. Its errors are *ProtocolError.
	parse(result json.RawMessage, limits Limits) (turn, error)
}

// params are the parameters of all requests.
type params struct {
	Name           string                     `json:"name,omitempty"`
	URI            string                     `json:"uri,omitempty"`
	Arguments      json.RawMessage            `json:"arguments,omitempty"`
	SagaToken      string                     `json:"sagaToken,omitempty"`
	CompletedSteps []Answer                   `json:"completedSteps,omitzero"`
	TaskID         string                     `json:"taskId,omitempty"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
	RequestState   string                     `json:"requestState,omitempty"`
	Cursor         string                     `json:"cursor,omitempty"`
	Task           *struct{}                  `json:"task,omitempty"` // to be called as a task of MCP 2025-11-25
	Meta           meta                       `json:"_meta,omitzero"`
}

// meta is what a request says about itself. The first three are for MCP 2026-07-28.
type meta struct {
	Version       string          `json:"io.modelcontextprotocol/protocolVersion,omitempty"`
	Capabilities  map[string]any  `json:"io.modelcontextprotocol/clientCapabilities,omitzero"`
	Client        *implementation `json:"io.modelcontextprotocol/clientInfo,omitempty"`
	Key           string          `json:"io.github.mcpsaga/idempotencyKey,omitempty"`
	ProgressToken string          `json:"progressToken,omitempty"`
}

// request is a JSON-RPC request that has not been sent yet.
type request struct {
	method   string
	params   any
	header   map[string]string // for HTTP; a request with headers needs no handshake
	harmless bool              // the server may process it twice
	keyed    string            // the tool of a first call that is harmless if the tool takes idempotency keys
	later    bool              // it is not the first turn of a call
	// notify, if not nil, gets what the server says before it answers.
	notify func(method string, params json.RawMessage)
	// session: it goes through a session, in which handlers answer what the server asks.
	// subject is what is called.
	// asTask: a tool is called as a task there.
	session  bool
	asTask   bool
	handlers *Handlers
	subject  string
}

// turn is what a turn brought: a result, or a task, or else a suspension.
type turn struct {
	result json.RawMessage
	task   *Task
	token  string
	steps  []Step
	parts  []json.RawMessage // of the result, which come with a suspension
	wait   time.Duration     // when to come back
}

func (c *Client) dialect(p *Position) (dialect, error) {
	if d := c.dialects[p.Dialect]; d != nil {
		return d, nil
	}
	return nil, positionError("it uses the protocol %q, which this version does not know", p.Dialect)
}
