package steps

import (
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// SampleResult is what a client's model said: a CreateMessageResult. Treat it as
// input from outside, which it is.
type SampleResult struct {
	// Role is who speaks, as a rule [content.Assistant].
	Role content.Role
	// Content is what was said.
	Content content.Blocks
	// Model is the name of the model.
	Model string
	// StopReason says why the model stopped, or is empty: "endTurn" if it had said what
	// it had to say, "stopSequence", "maxTokens" if the text may end in mid-sentence,
	// "toolUse" if it wants to use tools (see [SampleResult.ToolUses]), or another.
	StopReason string
}

// Text returns the texts of the content, joined by newlines.
func (r SampleResult) Text() string { return r.Content.Text() }

// ToolUses returns the tools that the model wants to use, in order. Answer each
// with a [content.ToolResult] in the next message.
func (r SampleResult) ToolUses() []content.ToolUse {
	var uses []content.ToolUse
	for _, b := range r.Content {
		if u, ok := b.(content.ToolUse); ok {
			uses = append(uses, u)
		}
	}
	return uses
}

// Message returns the result as a message, to go on with the conversation.
func (r SampleResult) Message() SampleMessage { return SampleMessage{Role: r.Role, Content: r.Content} }

// MarshalJSON implements encoding/json.Marshaler. A single block is written
// alone, as every client and server understands it.
func (r SampleResult) MarshalJSON() ([]byte, error) {
	said, err := r.Content.AppendSampling(nil)
	if err != nil {
		return nil, err
	}
	return appendJSON(nil, &sampleResult{r.Role, said, r.Model, r.StopReason}), nil
}

// sampleResult is a CreateMessageResult.
type sampleResult struct {
	Role       content.Role   `json:"role"`
	Content    jsontext.Value `json:"content"`
	Model      string         `json:"model"`
	StopReason string         `json:"stopReason,omitzero"`
}

// UnmarshalJSON implements encoding/json.Unmarshaler. It demands what MCP
// demands: role, content and model.
func (r *SampleResult) UnmarshalJSON(data []byte) error {
	parsed, reason := parseSampleResult(data)
	if reason != "" {
		return errors.New("sampling result: " + reason)
	}
	*r = parsed
	return nil
}

func parseSampleResult(result json.RawMessage) (r SampleResult, reason string) {
	if reason = checkObject(result); reason != "" {
		return r, reason
	}
	var role, model, stop, said jsontext.Value
	for name, v := range jsonview.Members(result) {
		switch string(name) {
		case "role":
			role = v
		case "model":
			model = v
		case "stopReason":
			stop = v
		case "content":
			said = v
		}
	}
	speaker, _ := jsonview.String(role)
	r.Role = content.Role(speaker)
	var named, stopped bool
	r.Model, named = jsonview.String(model)
	r.StopReason, stopped = jsonview.String(stop)
	switch {
	case r.Role != content.User && r.Role != content.Assistant:
		return r, `"role" must be "user" or "assistant"`
	case !named:
		return r, `"model" must be a string`
	case !stopped && stop != nil && stop.Kind() != 'n':
		return r, `"stopReason" must be a string`
	case said.Kind() != '{' && said.Kind() != '[':
		return r, `"content" must be a content block or an array of them`
	}
	if err := r.Content.UnmarshalSampling(said); err != nil {
		return r, `"content": ` + err.Error()
	}
	return r, ""
}
