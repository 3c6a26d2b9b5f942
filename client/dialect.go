package client

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// The names of dialects, for Position.Dialect.
const (
	sagaProposal = "saga"
	stateless    = "mcp-" + revision
	inSessions   = "mcp-sessions"
)

// dialect is a wire protocol. A new one is a file and a line in [New].
type dialect interface {
	// next returns the request of the turn that follows p, all of whose steps are answered, by a client that answers with h.
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
	// session: it goes through a session, in which handlers answer what the server asks; asTask: as a task there. subject is
	// what is called.
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

// sagaDialect is the saga proposal: a later turn carries the token and every answer so far.
type sagaDialect struct{}

func (sagaDialect) next(p *Position, h *Handlers) request {
	var m meta
	var r request
	m.ProgressToken, r.notify = h.progress()
	if p.Token != "" {
		answers := append([]Answer{}, p.Answers...) // the proposal wants the array even when it is empty
		r.method, r.params, r.harmless = "tools/resumeSaga", params{SagaToken: p.Token, CompletedSteps: answers, Meta: m}, true
		return r
	}
	m.Key = p.Key
	if p.Key != "" { // it is empty in a position of an earlier version
		r.keyed = p.Tool
	}
	r.method, r.params = "tools/callSaga", params{Name: p.Tool, Arguments: p.Arguments, Meta: m}
	return r
}

// cancel is an extension of mcpsaga's server. With the answers so far a turn is undone too whose response was lost.
func (sagaDialect) cancel(p *Position) request {
	var answers []Answer // the turn was not taken, and must not be now
	if len(p.Pending()) == 0 {
		answers = append([]Answer{}, p.Answers...) // an empty list says that it may have been
	}
	return request{method: "tools/cancelSaga", params: params{SagaToken: p.Token, CompletedSteps: answers}, harmless: true}
}

// list returns a request of MCP without a handshake, which servers of this module take.
func (sagaDialect) list(method, cursor string) request {
	return request{method: method, params: params{Cursor: cursor}, harmless: true}
}

func (sagaDialect) parse(raw json.RawMessage, limits Limits) (turn, error) {
	wire := struct {
		State     string                   `json:"state"`
		SagaToken string                   `json:"sagaToken"`
		Steps     bounded[Step]            `json:"steps"`
		Content   bounded[json.RawMessage] `json:"content"`
		Meta      json.RawMessage          `json:"_meta"`
	}{Steps: bounded[Step]{max: limits.Steps, what: "steps at once"}, Content: limits.blocks()}
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

// waitOf returns when to come back to a suspension with that _meta; 0 if it does not say.
func waitOf(meta json.RawMessage) time.Duration {
	var ms float64
	if json.Unmarshal(jsonview.Get(meta, "io.github.mcpsaga/retryAfterMs"), &ms) != nil {
		return 0
	}
	return milliseconds(ms)
}

// milliseconds returns a duration that JSON gives as a number, which may be any.
func milliseconds(n float64) time.Duration {
	const most = float64(1<<62) / float64(time.Millisecond)
	return time.Duration(min(max(n, 0), most) * float64(time.Millisecond))
}

// revision is the first revision of MCP without handshakes.
const revision = "2026-07-28"

// statelessDialect is MCP 2026-07-28: a request that is answered with questions is sent again, with the answers of this round and the
// server's token (basic/patterns/mrtr).
type statelessDialect struct{ options Options }

// request returns a request of this revision, by a client that answers with h. Headers repeat what it
// says, for gateways (basic/transports/streamable-http); name is what it is about, or empty.
func (d statelessDialect) request(method, name string, h *Handlers, p params) request {
	header := map[string]string{"MCP-Protocol-Version": revision, "Mcp-Method": method}
	if name != "" {
		header["Mcp-Name"] = encodeHeader(name)
	}
	introduction := implementationOf(d.options)
	p.Meta.Version, p.Meta.Client, p.Meta.Capabilities = revision, &introduction, h.capabilities()
	extensions := maps.Clone(d.options.Extensions)
	if !slices.Contains([]string{"server/discover", "prompts/get", "resources/read"}, method) { // which know no tasks
		if extensions == nil {
			extensions = make(map[string]any)
		}
		extensions[tasksExtension] = struct{}{}
	}
	if len(extensions) > 0 {
		p.Meta.Capabilities["extensions"] = extensions
	}
	return request{method: method, params: p, harmless: true, header: header}
}

// callMethods are the methods that call a thing of that kind.
var callMethods = map[string]string{"tool": "tools/call", "prompt": "prompts/get", "resource": "resources/read"}

// callParams are the parameters of MCP's own methods that call what p names.
func callParams(p *Position) params {
	q := params{Name: cmp.Or(p.Tool, p.Prompt), URI: p.URI, Arguments: p.Arguments}
	if p.Kind() == "tool" && q.Arguments == nil {
		q.Arguments = json.RawMessage("{}") // as many servers insist
	}
	return q
}

// next returns the request for a tool, prompt or resource. To get the latter changes nothing, and later requests of a tool are
// harmless as well: its server has to expect that they are repeated.
func (d statelessDialect) next(p *Position, h *Handlers) request {
	q := callParams(p)
	q.RequestState = p.Token
	q.InputResponses = make(map[string]json.RawMessage, len(p.Answers)) // omitted while it is empty
	for _, answer := range p.Answers {
		q.InputResponses[answer.StepID] = answer.Result
	}
	isTool := p.Kind() == "tool"
	token, notify := h.progress()
	q.Meta.Key, q.Meta.ProgressToken = p.Key, token
	r := d.request(callMethods[p.Kind()], p.Subject(), h, q)
	r.notify = notify
	r.harmless = !isTool || p.Round > 0
	if !r.harmless && p.Key != "" {
		r.keyed = p.Tool
	}
	return r
}

func (d statelessDialect) list(method, cursor string) request {
	return d.request(method, "", cmp.Or(d.options.Lists, new(Handlers)), params{Cursor: cursor})
}

// encodeHeader encodes a value that cannot stand in a header as it is.
func encodeHeader(v string) string {
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if strings.TrimSpace(v) == v && !strings.HasPrefix(v, "=?base64?") && !strings.ContainsFunc(v, odd) {
		return v
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
}

func (statelessDialect) parse(raw json.RawMessage, limits Limits) (turn, error) {
	wire := struct {
		ResultType    string          `json:"resultType"`
		InputRequests inputRequests   `json:"inputRequests"`
		RequestState  string          `json:"requestState"`
		Meta          json.RawMessage `json:"_meta"`
	}{InputRequests: inputRequests{max: limits.Steps}}
	if err := read(raw, &wire, "the server's result"); err != nil {
		return turn{}, err
	}
	switch wire.ResultType {
	case "", "complete":
		return turn{result: raw}, nil
	case "task":
		task, err := parseTask(raw, limits)
		return turn{task: task}, err
	case "input_required":
	default:
		return turn{}, malformed("the server's result is of the type %.40q, which this client does not know", wire.ResultType)
	}
	if len(wire.InputRequests.steps) == 0 && wire.RequestState == "" {
		return turn{}, malformed("the server suspended the request without questions and without a state")
	}
	return turn{token: wire.RequestState, steps: wire.InputRequests.steps, wait: waitOf(wire.Meta)}, nil
}

// inputRequests are the steps of a round, in the server's order.
type inputRequests struct {
	steps []Step
	max   int
}

// stepKinds are the kinds of steps by the method that asks them.
var stepKinds = map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

// UnmarshalJSON reads an object with a request for each step.
func (r *inputRequests) UnmarshalJSON(raw []byte) error {
	if !bytes.HasPrefix(raw, []byte("{")) && string(raw) != "null" { // which some servers write for none
		return errors.New("inputRequests must be an object")
	}
	if !jsontext.Value(raw).IsValid() { // readers might differ in what is asked
		return errors.New("inputRequests has a name twice")
	}
	for id, ask := range jsonview.Members(raw) {
		if len(r.steps) == r.max {
			return tooMuch(r.max, "steps at once")
		}
		var wire struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if err := jsonv2.Unmarshal(ask, &wire); err != nil {
			return err
		}
		r.steps = append(r.steps, Step{Type: cmp.Or(stepKinds[wire.Method], wire.Method), StepID: string(id), Params: wire.Params})
	}
	return nil
}
