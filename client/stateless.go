package client

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// revision is the first revision of MCP without handshakes.
const revision = "2026-07-28"

// statelessDialect is MCP 2026-07-28 with its multi round-trip requests
// (basic/patterns/mrtr): a request that is answered with questions is sent again,
// with the answers of this round and the server's token.
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
	if !slices.Contains([]string{"server/discover", "prompts/get", "resources/read"}, method) { // which know no tasks
		p.Meta.Capabilities["extensions"] = map[string]any{tasksExtension: struct{}{}}
	}
	return request{method: method, params: p, harmless: true, header: header}
}

// callMethods are the methods that call a thing of that kind.
var callMethods = map[string]string{"tool": "tools/call", "prompt": "prompts/get", "resource": "resources/read"}

// next returns the request for a tool, prompt or resource. To get the latter changes
// nothing. Of a tool, requests after the first are harmless as well: its server has to
// expect that they are repeated.
func (d statelessDialect) next(p *Position, h *Handlers) request {
	q := params{Name: cmp.Or(p.Tool, p.Prompt), URI: p.URI, Arguments: p.Arguments, RequestState: p.Token}
	q.InputResponses = make(map[string]json.RawMessage, len(p.Answers)) // omitted while it is empty
	for _, answer := range p.Answers {
		q.InputResponses[answer.StepID] = answer.Result
	}
	isTool := p.Kind() == "tool"
	if isTool && q.Arguments == nil {
		q.Arguments = json.RawMessage("{}") // as many servers insist
	}
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
	return d.request(method, "", new(Handlers), params{Cursor: cursor})
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
