package steps

import (
	"fmt"
	"math"

	"github.com/mcpsaga/mcpsaga/content"

	"github.com/go-json-experiment/json/jsontext"
)

// Verify reports what MCP does not allow in the request. The error is a
// *[QuestionError].
func (r *SampleRequest) Verify() error {
	fail := func(where, reason string, args ...any) error {
		return &QuestionError{Where: where, Reason: fmt.Sprintf(reason, args...)}
	}
	switch {
	case len(r.Messages) == 0:
		return fail("Messages", "there are none: ask With(steps.Promptf(...))")
	case r.MaxTokens <= 0:
		return fail("MaxTokens", "%d is not more than 0", r.MaxTokens)
	case r.Temperature != nil && !finite(*r.Temperature):
		return fail("Temperature", "is not a number")
	case r.Metadata != nil && !isObject(r.Metadata):
		return fail("Metadata", "is not a JSON object")
	}
	switch r.IncludeContext {
	case "", "none", "thisServer", "allServers":
	default:
		return fail("IncludeContext", "%q is not one of none, thisServer and allServers", r.IncludeContext)
	}
	switch r.ToolChoice {
	case "":
	case "auto", "required", "none":
		if len(r.Tools) == 0 {
			return fail("ToolChoice", "there are no Tools to choose")
		}
	default:
		return fail("ToolChoice", "%q is not one of auto, required and none", r.ToolChoice)
	}
	if p := r.ModelPreferences; p != nil {
		for _, x := range []struct {
			name  string
			value *float64
		}{{"CostPriority", p.CostPriority}, {"SpeedPriority", p.SpeedPriority}, {"IntelligencePriority", p.IntelligencePriority}} {
			// Written so that NaN fails as well.
			if x.value != nil && !(*x.value >= 0 && *x.value <= 1) {
				return fail("ModelPreferences."+x.name, "%v is not between 0 and 1", *x.value)
			}
		}
	}
	if err := verifyTools(r.Tools); err != nil {
		return err
	}
	return verifyMessages(r.Messages)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func isObject(raw []byte) bool {
	v := jsontext.Value(raw)
	return v.Kind() == '{' && v.IsValid()
}

func verifyTools(tools []SampleTool) error {
	names := map[string]bool{}
	for i, t := range tools {
		reason := ""
		switch {
		case t.Name == "":
			reason = "has no Name"
		case names[t.Name]:
			reason = "there are two tools of this name"
		case t.InputSchema != nil && !isObject(t.InputSchema):
			reason = "InputSchema is not a JSON object"
		case t.OutputSchema != nil && !isObject(t.OutputSchema):
			reason = "OutputSchema is not a JSON object"
		}
		if reason != "" {
			return &QuestionError{Where: fmt.Sprintf("Tools[%d] %q", i, t.Name), Reason: reason}
		}
		names[t.Name] = true
	}
	return nil
}

// verifyMessages checks the roles and how tool uses and tool results go together:
// a tool use of the model is answered in the very next message, which is the
// user's and holds nothing else.
func verifyMessages(messages []SampleMessage) error {
	var pending []string // the tool uses of the message before
	for i, m := range messages {
		fail := func(reason string, args ...any) error {
			return &QuestionError{Where: fmt.Sprintf("Messages[%d]", i), Reason: fmt.Sprintf(reason, args...)}
		}
		if m.Role != content.User && m.Role != content.Assistant {
			return fail("the Role %q is not one of user and assistant", m.Role)
		}
		if len(m.Content) == 0 {
			return fail("has no Content")
		}
		var uses, results []string
		for _, b := range m.Content {
			switch b := plain(b).(type) {
			case content.Text, content.Image, content.Audio:
			case content.ToolUse:
				if m.Role != content.Assistant {
					return fail("a tool use belongs in a message of the assistant")
				}
				uses = append(uses, b.ID)
			case content.ToolResult:
				if m.Role != content.User {
					return fail("a tool result belongs in a message of the user")
				}
				results = append(results, b.ToolUseID)
			case nil:
				return fail("holds a nil block")
			default:
				return fail("a %s block is not allowed in sampling; allowed are text, image, audio, tool_use and tool_result", b.BlockType())
			}
		}
		if len(results) > 0 && len(results) != len(m.Content) {
			return fail("a message with tool results must hold nothing else")
		}
		if unanswered := without(pending, results); len(unanswered) > 0 {
			return fail("must answer the tool use %q of the message before", unanswered[0])
		}
		if unasked := without(results, pending); len(unasked) > 0 {
			return fail("answers the tool use %q, which the message before does not hold", unasked[0])
		}
		if len(results) > len(pending) {
			return fail("answers a tool use twice")
		}
		pending = uses
	}
	if len(pending) > 0 {
		return &QuestionError{Where: "Messages", Reason: fmt.Sprintf("the tool use %q at the end has no result", pending[0])}
	}
	return nil
}

// without returns the elements of a that are not in b. Both may be as long as a
// message allows.
func without(a, b []string) []string {
	if len(a) == 0 {
		return nil
	}
	known := make(map[string]bool, len(b))
	for _, s := range b {
		known[s] = true
	}
	var rest []string
	for _, s := range a {
		if !known[s] {
			rest = append(rest, s)
		}
	}
	return rest
}

// plain returns the block that b points to, if it is a pointer.
func plain(b content.Block) content.Block {
	switch p := b.(type) {
	case *content.Text:
		if p != nil {
			return *p
		}
	case *content.Image:
		if p != nil {
			return *p
		}
	case *content.Audio:
		if p != nil {
			return *p
		}
	case *content.ToolUse:
		if p != nil {
			return *p
		}
	case *content.ToolResult:
		if p != nil {
			return *p
		}
	default:
		return b
	}
	return nil
}
