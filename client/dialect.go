package client

import (
	"encoding/json"
	"time"
)

// dialect is a wire protocol: it turns a position into the request of the next turn, and
// a response into what the turn brought. A new one is a file and a line in [New].
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
	// keepsAnswers: every turn carries all answers of the call so far, so that the ids of
	// steps never repeat, and an answer can be an error. Otherwise a turn carries those of
	// the last round, and a handler that fails ends the call.
	keepsAnswers() bool
}

// request is a JSON-RPC request that has not been sent yet.
type request struct {
	method string
	params any
	// harmless reports that the server may process the request twice.
	harmless bool
	// later: it is not the first turn of a call.
	later bool
	// tool is the tool of a first call that carries an idempotency key, or empty: if the
	// tool takes keys, the call is harmless.
	tool string
	// header is sent with the request over HTTP.
	header map[string]string
	// introduced: the request says itself who sends it, so that it can come before
	// any handshake.
	introduced bool
	// progress is the request's progress token, or empty; notify gets what the server
	// says before it answers, and is nil if the caller does not want it.
	progress string
	notify   func(method string, params json.RawMessage)
	// session: it goes through a session, in which handlers answer what the server asks.
	session  bool
	handlers *Handlers
	subject  string
}

// turn is what a turn brought: a result, or else a suspension, or a task.
type turn struct {
	result json.RawMessage
	token  string
	steps  []Step
	task   *Task
	// parts are a part of the result that comes with a suspension, and wait is when to come
	// back.
	parts []json.RawMessage
	wait  time.Duration
}

func (c *Client) dialect(p *Position) (dialect, error) {
	for _, d := range c.dialects {
		if d.name() == p.Dialect {
			return d, nil
		}
	}
	return nil, positionError("it uses the protocol %q, which this version does not know", p.Dialect)
}

// sagaDialect is the saga proposal: tools/callSaga starts a call, and
// tools/resumeSaga carries the token and every answer so far.
type sagaDialect struct{}

func (sagaDialect) name() string       { return "saga" }
func (sagaDialect) keepsAnswers() bool { return true }

type callParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Meta      *callMeta       `json:"_meta,omitempty"`
}

// callMeta is nil if it says nothing.
type callMeta struct {
	Key           string `json:"io.github.mcpsaga/idempotencyKey,omitempty"`
	ProgressToken string `json:"progressToken,omitempty"`
}

type resumeParams struct {
	SagaToken      string    `json:"sagaToken"`
	CompletedSteps []Answer  `json:"completedSteps"`
	Meta           *callMeta `json:"_meta,omitempty"`
}

type cancelParams struct {
	SagaToken      string   `json:"sagaToken"`
	CompletedSteps []Answer `json:"completedSteps,omitempty"`
}

func (sagaDialect) next(p *Position, h *Handlers) request {
	meta := &callMeta{ProgressToken: h.progressToken()}
	if p.Token == "" {
		meta.Key = p.Key // empty in a position of an earlier version
	}
	r := request{progress: meta.ProgressToken}
	if *meta == (callMeta{}) {
		meta = nil
	}
	if p.Token == "" {
		r.method, r.params = "tools/callSaga", callParams{Name: p.Tool, Arguments: p.Arguments, Meta: meta}
		if p.Key != "" {
			r.tool = p.Tool
		}
		return r
	}
	answers := append([]Answer{}, p.Answers...) // the proposal wants the array even when it is empty
	r.method, r.params, r.harmless = "tools/resumeSaga", resumeParams{p.Token, answers, meta}, true
	return r
}

// cancel makes use of an extension of the proposal by mcpsaga's server: the token
// and the answers so far, so that a turn whose response was lost is undone too.
func (sagaDialect) cancel(p *Position) (request, bool) {
	answers := p.Answers
	if len(p.Pending()) > 0 {
		answers = nil // the turn was not taken, and must not be now
	}
	return request{method: "tools/cancelSaga", params: cancelParams{SagaToken: p.Token, CompletedSteps: answers}, harmless: true}, true
}

// list returns a request of MCP without a handshake, which servers of this module take.
func (sagaDialect) list(method, cursor string) request {
	return request{method: method, params: listParams{Cursor: cursor}, harmless: true}
}

func (sagaDialect) parse(raw json.RawMessage, limits Limits) (turn, error) {
	wire := struct {
		State     string                   `json:"state"`
		SagaToken string                   `json:"sagaToken"`
		Steps     bounded[Step]            `json:"steps"`
		Content   bounded[json.RawMessage] `json:"content"`
		Meta      json.RawMessage          `json:"_meta"`
	}{Steps: bounded[Step]{max: limits.Steps, what: "steps at once"}, Content: bounded[json.RawMessage]{max: limits.Items, what: "blocks in a result"}}
	if err := read(raw, &wire, "the server's result"); err != nil {
		return turn{}, err
	}
	if wire.State != "suspended" {
		return turn{result: raw}, nil
	}
	if wire.SagaToken == "" {
		return turn{}, malformed("the server suspended the call without a token")
	}
	for _, step := range wire.Steps.items {
		if step.StepID == "" {
			return turn{}, malformed("the server sent a step of type %q without an id", step.Type)
		}
	}
	return turn{token: wire.SagaToken, steps: wire.Steps.items, parts: wire.Content.items, wait: waitOf(wire.Meta)}, nil
}
