package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// positionVersion is the version of [Position] that is written. All earlier ones are read.
const positionVersion = 1

// Position is where a call stands. It is plain JSON data, complete by itself:
// any process that reaches a server with the same keys can continue from it.
//
// It contains what the user answered. Store it with mode 0600.
type Position struct {
	Version int `json:"version"` // of the format: 1
	// Dialect names the wire protocol of the call: "saga", "mcp-2026-07-28", or
	// "mcp-sessions", whose calls cannot be continued. It is empty until the server has
	// said what it speaks: then nothing has begun.
	Dialect string `json:"dialect"`
	// Tool, Prompt or URI is what was called, got or read. One of them is set.
	Tool      string          `json:"tool,omitempty"`
	Prompt    string          `json:"prompt,omitempty"`
	URI       string          `json:"uri,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of the tool or prompt, a JSON object
	Token     string          `json:"token,omitempty"`     // the server's last, verbatim; empty before the first suspension
	// Task is the id of the task that the call has become, verbatim. The server works on
	// it whether or not a client is there. Tool may be empty then.
	Task string `json:"task,omitempty"`
	// Key is by what a server with a ledger knows the first call again, until there is a
	// token. Empty for prompts and resources.
	Key   string `json:"key,omitempty"`
	Round int    `json:"round"`           // the number of suspensions so far
	Steps []Step `json:"steps,omitempty"` // of the last suspension, in the server's order
	// Answers are the answers so far, in the order they were given: of a saga and of a
	// task all, otherwise those of the last suspension.
	Answers []Answer          `json:"answers,omitempty"`
	Parts   []json.RawMessage `json:"parts,omitempty"` // blocks of the result so far, of a saga that gives it in parts
}

// Step is one thing the server asks, as it came.
type Step struct {
	Type   string          `json:"type"`             // elicitation, sampling or roots
	StepID string          `json:"stepId"`           // names the step within the call
	Params json.RawMessage `json:"params,omitempty"` // of the MCP request of that kind
}

// Answer is the client's answer to one step: a result or an error.
type Answer struct {
	StepID string          `json:"stepId"`           // names the step
	Result json.RawMessage `json:"result,omitempty"` // of the MCP request of that kind, or nil
	Error  *Error          `json:"error,omitempty"`  // why the step failed, or nil
}

// Kind returns "tool", "prompt" or "resource".
func (p Position) Kind() string {
	switch {
	case p.Prompt != "":
		return "prompt"
	case p.URI != "":
		return "resource"
	}
	return "tool"
}

// Subject returns the name of the tool or prompt, the resource's URI, or the id of a
// task whose tool is not known.
func (p Position) Subject() string { return cmp.Or(p.Tool, p.Prompt, p.URI, p.Task) }

// Pending returns the steps of the last suspension that have no answer yet.
func (p Position) Pending() []Step {
	var pending []Step
	answered := p.answered()
	for _, step := range p.Steps {
		if !answered[step.StepID] {
			pending = append(pending, step)
		}
	}
	return pending
}

// answered returns the ids of the steps that have answers: a set, as the server decides how many.
func (p Position) answered() map[string]bool {
	ids := make(map[string]bool, len(p.Answers))
	for _, a := range p.Answers {
		ids[a.StepID] = true
	}
	return ids
}

// keepsAnswers reports whether every turn carries all answers, so that ids never repeat, and an answer can be an error. Else a turn
// carries those of the last round, and a handler that fails ends the call.
func (p Position) keepsAnswers() bool { return p.Dialect != stateless }

// snapshot returns a copy that does not change when the call continues.
func (p Position) snapshot() Position {
	p.Steps, p.Answers, p.Parts = slices.Clone(p.Steps), slices.Clone(p.Answers), slices.Clone(p.Parts)
	return p
}

// suspended moves the position to the server's next suspension.
func (p *Position) suspended(t turn, limits Limits) error {
	parts, size := slices.Concat(p.Parts, t.parts), 0
	if len(parts) > limits.Items {
		return tooMuch(limits.Items, "blocks in a result")
	}
	for _, part := range parts {
		size += len(part)
	}
	if size > limits.PartBytes {
		return tooMuch(limits.PartBytes, "bytes in the parts of a result")
	}
	if !p.keepsAnswers() {
		p.Answers = nil
	}
	answered, asked := p.answered(), make(map[string]bool, len(t.steps))
	for _, step := range t.steps {
		if asked[step.StepID] {
			return malformed("the server sent two steps with the id %q in one turn", step.StepID)
		}
		if answered[step.StepID] {
			return malformed("the server asks step %q again, which has been answered", step.StepID)
		}
		asked[step.StepID] = true
	}
	p.Token, p.Key, p.Steps, p.Parts = t.token, "", t.steps, parts
	p.Round++
	return nil
}

// whole returns a result with the parts that came before it in front.
func (p *Position) whole(result json.RawMessage) (json.RawMessage, error) {
	if len(p.Parts) == 0 {
		return result, nil
	}
	var members map[string]json.RawMessage
	if err := read(result, &members, "the server's tool result"); err != nil {
		return nil, err
	}
	blocks := slices.Clone(p.Parts)
	for block := range jsonview.Elements(members["content"]) {
		blocks = append(blocks, block)
	}
	content, err := json.Marshal(blocks)
	if err != nil || members == nil {
		return nil, malformed("the server's result is no tool result")
	}
	members["content"] = content
	return json.Marshal(members)
}

// PositionError says why a call cannot be continued or cancelled from a position.
type PositionError struct {
	Reason string // what is wrong with the position and what to do
}

// Error implements error.
func (e *PositionError) Error() string { return "cannot use this position: " + e.Reason }

func positionError(format string, args ...any) error {
	return &PositionError{Reason: fmt.Sprintf(format, args...)}
}

// check reports why the position is not one of ours. One made of a task's id gets a version and a dialect.
func (p *Position) check() error {
	if p.Version == 0 && p.Dialect == "" && p.Task != "" {
		p.Version, p.Dialect = positionVersion, stateless
	}
	switch {
	case p.Version == 0 || p.Subject() == "":
		return positionError("it has no version or no tool, so it is not a saved call")
	case len(p.Subject()) < len(p.Tool+p.Prompt+p.URI), p.Task != "" && p.Prompt+p.URI != "":
		return positionError("it is of a tool, a prompt and a resource at once")
	case p.Version > positionVersion:
		return positionError("it was written by a newer version of this program (%d, this one reads up to %d): update", p.Version, positionVersion)
	case p.Dialect == "" && (p.Token+p.Task != "" || p.Round+len(p.Steps)+len(p.Answers) > 0):
		return positionError("the call has begun, and it does not say by which protocol")
	case p.Token == "" && p.Task == "" && p.Tool != "" && p.Dialect == sagaProposal && len(p.Steps)+len(p.Answers) > 0:
		return positionError("it has steps but no token; start the call again")
	}
	seen := make(map[string]bool, len(p.Answers))
	for _, answer := range p.Answers {
		if (answer.Result == nil) == (answer.Error == nil) {
			return positionError("the answer to step %q needs either a result or an error", answer.StepID)
		}
		if seen[answer.StepID] {
			return positionError("it has two answers to step %q", answer.StepID)
		}
		seen[answer.StepID] = true
	}
	return nil
}
